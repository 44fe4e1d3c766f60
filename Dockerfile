# Two stages: the first one compiles the binary; the second one contains only the binary, the system's certificates and a user.
FROM docker.io/library/rust:1.95-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends cmake && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN cargo build --release --locked --bin porchlight

FROM docker.io/library/debian:bookworm-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --uid 10001 --home-dir /var/lib/porchlight --create-home porchlight
COPY --from=build /source/target/release/porchlight /usr/local/bin/porchlight
USER porchlight
WORKDIR /var/lib/porchlight
VOLUME /var/lib/porchlight
# In a container, both listeners must be reachable from outside. Publish the second one to operators only.
ENV PORCHLIGHT__SERVER__LISTEN=0.0.0.0:8080 \
    PORCHLIGHT__SERVER__OPS_LISTEN=0.0.0.0:9464 \
    PORCHLIGHT__STORE__PATH=/var/lib/porchlight/data
EXPOSE 8080 9464
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=6s --start-period=60s CMD ["porchlight", "healthcheck"]
ENTRYPOINT ["porchlight"]
CMD ["serve"]
