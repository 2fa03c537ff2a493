# labeltree serve in a container; models are mounted at /models.
#   docker build -t labeltree .
#   docker run --read-only --cap-drop ALL -p 127.0.0.1:8080:8080 -v "$PWD/model:/models/model:ro" labeltree

FROM python:3.12-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY pyproject.toml CMakeLists.txt README.md LICENSE ./
COPY native native
COPY src src
RUN python -m venv /opt/labeltree && /opt/labeltree/bin/pip install --no-cache-dir ".[serve]"

FROM python:3.12-slim
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin labeltree
COPY --from=build /opt/labeltree /opt/labeltree
ENV PATH=/opt/labeltree/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 10001
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s CMD \
    ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8080/readyz', timeout=2)"]
# The address is that of the container: publish the port to the networks that may use the service.
ENTRYPOINT ["labeltree", "serve", "--host", "0.0.0.0", "--port", "8080"]
CMD ["/models/model"]
