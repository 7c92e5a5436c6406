# The images of gateway, agent and controller for people with an engine:
#   docker build --target gateway    -t xylem-gateway:0.1.0 .
#   docker build --target agent      -t xylem-agent:0.1.0 .
#   docker build --target controller -t xylem-controller:0.1.0 .
# What is in them is said by scripts/images.ts alone, which also writes them without an engine.
FROM rust:1-trixie AS rust

FROM node:24-trixie AS build
RUN apt-get update && apt-get install -y --no-install-recommends nftables ca-certificates && rm -rf /var/lib/apt/lists/*
COPY --from=rust /usr/local/cargo /usr/local/cargo
COPY --from=rust /usr/local/rustup /usr/local/rustup
ENV PATH=/usr/local/cargo/bin:$PATH RUSTUP_HOME=/usr/local/rustup CARGO_HOME=/usr/local/cargo XYLEM_CACHE=/cache
WORKDIR /src
COPY package.json package-lock.json ./
# With its scripts: one of them puts the project's own Node in place.
RUN npm ci --no-fund --no-audit
COPY . .
RUN PATH=/src/node_modules/.bin:$PATH sh -c 'node dataplane/build.ts && node scripts/bundle.ts && node scripts/images.ts --folders --out /images'

FROM scratch AS gateway
COPY --from=build /images/gateway/ /
ENV PATH=/bin
# The flags are those of src/host/node-flags.ts.
ENTRYPOINT ["/bin/node", "--max-semi-space-size=1", "--no-opt", "--no-maglev", "--no-sparkplug", "--optimize-for-size", "--expose-gc", "--single-threaded-gc", "/xylem/gateway.js"]

FROM scratch AS agent
COPY --from=build /images/agent/ /
ENV PATH=/bin
ENTRYPOINT ["/bin/node", "--max-semi-space-size=1", "--no-opt", "--no-maglev", "--no-sparkplug", "--optimize-for-size", "--expose-gc", "--single-threaded-gc", "/xylem/agent.js"]

FROM scratch AS controller
COPY --from=build /images/controller/ /
ENV PATH=/bin
USER 65532:65532
ENTRYPOINT ["/bin/node", "/xylem/controller.js"]
