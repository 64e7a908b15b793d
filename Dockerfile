# Leyden with an embedded ClickHouse, on CPU. Data lives in /data; config/docker.yaml, laid over config/pipeline.yaml, listens on all interfaces.
FROM node:20-slim AS build
WORKDIR /leyden
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts
COPY . .
RUN npm run build && npm prune --omit=dev --ignore-scripts

FROM node:20-slim
WORKDIR /leyden
COPY --from=build /leyden/package.json ./
COPY --from=build /leyden/node_modules node_modules
COPY --from=build /leyden/dist dist
COPY --from=build /leyden/config config
RUN ln -s /leyden/dist/cli/leyden.js /usr/local/bin/leyden && chmod +x dist/cli/leyden.js && mkdir /data /policies && chown node:node /data /policies
USER node
VOLUME /data
ENV CLICKHOUSE_URL=embedded:/data
# OTLP over gRPC and HTTP, scores, health, Prometheus
EXPOSE 4317 4318 4319 13133 8888
HEALTHCHECK --interval=10s --start-period=30s \
  CMD ["node", "-e", "fetch('http://localhost:13133/').then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["leyden"]
CMD ["run", "--config", "/leyden/config/pipeline.yaml", "--config", "/leyden/config/docker.yaml"]
