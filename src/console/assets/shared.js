// The parts that the scripts of the console share: streams.

const RETRY_MS = 5000;

// Follows a stream: calls the listener with the name of each message, and opens the stream again after a loss. While the
// connection is lost, `freshness` shows the time of the loss; a listener replaces that text. `beforeRetry` runs before each
// retry after a refusal. Returns a function that ends the stream.
export function followStream(address, freshness, listeners, beforeRetry = () => {}) {
  let source, timer;
  const receive = (event) => {
    // The browser's own event "open" has no message. A server that shuts down opens a stream and sends nothing.
    if (!(event instanceof MessageEvent)) return;
    listeners[event.type](event);
  };
  const open = () => {
    source = new EventSource(address);
    for (const type of Object.keys(listeners)) source.addEventListener(type, receive);
    source.onerror = () => {
      freshness.textContent = `not updating since ${new Date().toLocaleTimeString()}; reconnecting`;
      // A browser gives up after an answer other than 200, such as 429 or one of a proxy while the server restarts.
      if (source.readyState === EventSource.CLOSED) timer = setTimeout(() => { beforeRetry(); open(); }, RETRY_MS);
    };
  };
  open();
  return () => { clearTimeout(timer); source.close(); };
}
