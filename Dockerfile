# The one image of turnkeeper: the controller, the runners and the command line. It is built on any base that has
# Python 3.11 or later with venv:
#     docker build --build-arg BASE=my/python:3.13 --tag my/turnkeeper .
# Where pip must not go to an index, hand it the packages of both locks: --build-context wheels=FOLDER, and
# --build-arg PIP_NO_INDEX=1. Nothing of how this machine reaches an index is kept in a layer.
ARG BASE=python:3.13-slim

FROM scratch AS wheels

FROM ${BASE} AS dependencies
ARG PIP_NO_INDEX=
ARG PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /build
COPY requirements-kubernetes.lock ./
RUN --mount=type=bind,from=wheels,source=/,target=/wheels \
    python3 -m venv /opt/turnkeeper && \
    /opt/turnkeeper/bin/pip install --no-cache-dir --require-hashes --find-links /wheels -r requirements-kubernetes.lock

FROM ${BASE} AS package
ARG PIP_NO_INDEX=
ARG PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /build
COPY requirements-build.lock ./
RUN --mount=type=bind,from=wheels,source=/,target=/wheels \
    python3 -m venv builder && \
    builder/bin/pip install --no-cache-dir --require-hashes --find-links /wheels -r requirements-build.lock
COPY pyproject.toml README.md CHANGELOG.md LICENSE ./
COPY operator operator
RUN builder/bin/pip wheel --quiet --no-index --no-deps --no-build-isolation --wheel-dir dist .

FROM ${BASE}
LABEL org.opencontainers.image.title="turnkeeper" \
      org.opencontainers.image.description="Threads of messages, each worked on by one worker at a time" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=dependencies /opt/turnkeeper /opt/turnkeeper
# A copy, not a mount: buildah would not see that what it mounts has changed, and keep the layer of an older tree.
COPY --from=package /build/dist /dist
RUN /opt/turnkeeper/bin/pip install --no-cache-dir --no-index --no-deps --disable-pip-version-check /dist/*.whl && \
    rm -r /dist
# Nothing is written beside the program: the root may be read-only. Lines reach `kubectl logs` as they are written.
# A user by name, which kopf asks for, whatever number the pod runs as.
ENV PATH=/opt/turnkeeper/bin:${PATH} PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 USER=turnkeeper
# Nobody's number on the base images that people use; by number, so that Kubernetes can see that it is not root.
USER 65532:65532
WORKDIR /
ENTRYPOINT ["turnkeeper"]
