package flow;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import porchlight.api.InsightsApi;
import porchlight.api.SessionsApi;
import porchlight.api.TelemetryApi;
import porchlight.api.WebhooksApi;
import porchlight.client.ApiClient;
import porchlight.client.ApiException;
import porchlight.model.*;

/** Runs a session and a webhook through the generated Java client, and prints the insight that it read. */
public final class Flow {
  private final SessionsApi sessions;
  private final TelemetryApi telemetry;
  private final InsightsApi insights;
  private final WebhooksApi webhooks;
  private final ApiClient client = new ApiClient();

  private Flow() {
    client.updateBaseUri(environment("PORCHLIGHT_URL"));
    var key = environment("PORCHLIGHT_KEY");
    client.setRequestInterceptor(request -> request.header("Service-Key", key));
    sessions = new SessionsApi(client);
    telemetry = new TelemetryApi(client);
    insights = new InsightsApi(client);
    webhooks = new WebhooksApi(client);
  }

  public static void main(String[] arguments) throws Exception {
    new Flow().run();
  }

  private void run() throws Exception {
    var first = record("java-1");
    var insight = until(() -> {
      var read = insights.getInsight(first, null);
      return read.getStatus() == InsightStatus.PROCESSING ? null : read;
    });
    var url = java.net.URI.create(environment("RECEIVER_URL"));
    var created = webhooks.createWebhook(new CreateWebhookRequest().url(url), "create-" + url.getPort());
    check(webhooks.getWebhook().getId().equals(created.getId()), created);
    check(webhooks.updateWebhook(new UpdateWebhookRequest().enabled(true)).getEnabled(), created);
    var rotated = webhooks.rotateWebhookSecret("rotate-" + url.getPort(), new RotateSecretRequest().overlapSec(60));
    check(!rotated.getSecret().equals(created.getSecret()), "the secret is the same");
    var tested = webhooks.sendTestEvent(new SendTestEventRequest().event(WebhookEventType.INSIGHT_UPDATED));
    check(tested.getStatusCode() == 200, tested);
    var second = record("java-2");
    var rows = until(() -> {
      var page = webhooks.listDeliveries(null, null, second, null, null, null, null);
      var done = page.getData().stream().filter(row -> row.getStatus() == WebhookDeliveryStatus.DELIVERED).toList();
      return done.size() == 3 ? done : null;
    });
    var detail = webhooks.getDelivery(rows.get(0).getId());
    check(detail.getAttemptLog().get(0).getStatusCode() == 200, detail);
    webhooks.deleteWebhook();
    try {
      webhooks.getWebhook();
      check(false, "the webhook is still there");
    } catch (ApiException gone) {
      var problem = client.getObjectMapper().readValue(gone.getResponseBody(), WebhookNotFoundProblem.class);
      check(gone.getCode() == 404 && problem.getCode() == WebhookNotFoundProblem.CodeEnum.WEBHOOK_NOT_FOUND, problem);
    }
    System.out.println(client.getObjectMapper().writeValueAsString(insight));
  }

  /** Starts a session, sends a batch, stops it; returns its ID. */
  private String record(String name) throws Exception {
    var address = new AddressInput().line1("Lindenweg 7").city("Berlin").country("DE").lat(52.52).lng(13.405);
    var start = new StartSessionRequest().deliveryId(name).externalRiderId("rider-1").address(address);
    var session = sessions.startSession(start, name);
    List<Sample> samples = new ArrayList<>();
    for (int t = 0; t < 10; t++) {
      var fix = new LocationSample().t((double) t).kind(LocationSample.KindEnum.LOCATION);
      samples.add(new Sample(fix.lat(52.52).lng(13.405).accuracyM(5.0)));
    }
    samples.add(new Sample(new PressureSample().t(9.5).kind(PressureSample.KindEnum.PRESSURE).hPa(1008.4)));
    var batch = new TelemetryBatch().seq(0).samples(samples);
    // The client can read its own output: the discriminator distinguishes the kinds.
    var mapper = client.getObjectMapper();
    var again = mapper.readValue(mapper.writeValueAsString(batch), TelemetryBatch.class);
    check(again.getSamples().get(10).getActualInstance() instanceof PressureSample, again);
    var acknowledged = telemetry.sendTelemetry(session.getSessionId(), batch);
    check(acknowledged.getAckSeq() == 0, acknowledged);
    var stopped = sessions.stopSession(new StopSessionRequest().sessionId(session.getSessionId()));
    check(stopped.getStatus() == SessionStatus.COMPLETED, stopped);
    return session.getSessionId();
  }

  /** Returns the result of {@code read} once there is one, within half a minute. */
  private static <T> T until(Callable<T> read) throws Exception {
    for (int attempt = 0; attempt < 300; attempt++) {
      var value = read.call();
      if (value != null) {
        return value;
      }
      Thread.sleep(100);
    }
    throw new IllegalStateException("timed out");
  }

  private static void check(boolean condition, Object what) {
    if (!condition) {
      throw new IllegalStateException(String.valueOf(what));
    }
  }

  private static String environment(String name) {
    var value = System.getenv(name);
    check(value != null, name + " is not set");
    return value;
  }
}
