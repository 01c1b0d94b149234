# Two images: `docker build --target operator .` and `docker build --target worker .`
# BASE is any Debian 12 with apt. The tests build the same without an engine, out of this file
# (tests/kubernetes/images.py): they know FROM, ARG, RUN with bind mounts, ENV, USER, WORKDIR, ENTRYPOINT, CMD.
ARG BASE=debian:bookworm-slim

FROM ${BASE} AS system
RUN apt-get update -q \
 && apt-get install -y -q --no-install-recommends ca-certificates python3 python3-venv tini \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin \
 && groupadd --gid 10001 cooperator \
 && useradd --uid 10001 --gid 10001 --home-dir /var/lib/cooperator --create-home --shell /usr/sbin/nologin cooperator \
 && python3 -m venv /opt/cooperator
ENV PATH=/opt/cooperator/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    LANG=C.UTF-8 \
    PYTHONUNBUFFERED=1
WORKDIR /var/lib/cooperator
# An init as PID 1: it hands signals on and takes in what is orphaned.
ENTRYPOINT ["tini", "--", "cooperator"]

# What has to be installed, without the project itself: that changes more often.
FROM system AS requirements
RUN --mount=type=bind,source=pyproject.toml,target=/build/pyproject.toml \
    --mount=type=bind,source=images/requirements.py,target=/build/requirements.py \
    mkdir /requirements \
 && python /build/requirements.py > /requirements/common.txt \
 && python /build/requirements.py kubernetes > /requirements/operator.txt \
 && python /build/requirements.py spark s3 connect > /requirements/worker.txt

FROM system AS common
RUN --mount=type=bind,from=requirements,source=/requirements/common.txt,target=/build/requirements.txt \
    pip install -q --no-cache-dir -r /build/requirements.txt

FROM common AS operator
RUN --mount=type=bind,from=requirements,source=/requirements/operator.txt,target=/build/requirements.txt \
    pip install -q --no-cache-dir -r /build/requirements.txt
RUN --mount=type=bind,source=pyproject.toml,target=/build/pyproject.toml \
    --mount=type=bind,source=README.md,target=/build/README.md \
    --mount=type=bind,source=LICENSE,target=/build/LICENSE \
    --mount=type=bind,source=operator,target=/build/operator \
    cp -r /build /tmp/project \
 && pip install -q --no-cache-dir --no-deps --no-build-isolation /tmp/project \
 && rm -r /tmp/project
# Numbers, so that a kubelet can tell that this is not root.
USER 10001:10001

FROM common AS spark
# Java's package makes links among the manuals, which slim bases do not have.
RUN mkdir -p /usr/share/man/man1 \
 && apt-get update -q \
 && apt-get install -y -q --no-install-recommends openjdk-17-jre-headless procps \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin
RUN --mount=type=bind,from=requirements,source=/requirements/worker.txt,target=/build/requirements.txt \
    pip install -q --no-cache-dir -r /build/requirements.txt
# Jars for Kafka and for checkpoints in a store, each with the checksum of its lock: nothing is downloaded at
# run time.
ENV COOPERATOR_CACHE=/opt/cooperator/cache
RUN --mount=type=bind,source=operator/cooperator/__init__.py,target=/build/cooperator/__init__.py \
    --mount=type=bind,source=operator/cooperator/artifacts,target=/build/cooperator/artifacts \
    --mount=type=bind,source=operator/cooperator/model,target=/build/cooperator/model \
    PYTHONPATH=/build PYTHONDONTWRITEBYTECODE=1 \
    python -c "from cooperator.artifacts import resolve; [resolve(b, print) for b in ('spark-kafka', 'spark-s3', 'aws-sdk')]"
# A cluster may choose a user that no file here names; Spark asks for its name (cooperator.runtime.user).
RUN apt-get update -q \
 && apt-get install -y -q --no-install-recommends libnss-wrapper \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin

FROM spark AS worker
RUN --mount=type=bind,source=pyproject.toml,target=/build/pyproject.toml \
    --mount=type=bind,source=README.md,target=/build/README.md \
    --mount=type=bind,source=LICENSE,target=/build/LICENSE \
    --mount=type=bind,source=operator,target=/build/operator \
    cp -r /build /tmp/project \
 && pip install -q --no-cache-dir --no-deps --no-build-isolation /tmp/project \
 && rm -r /tmp/project
# What Spark loads, as a JVM maps it: members start in half the time. Jars that are added make it void; so do
# this again after them, with --s3 where checkpoints are in a store.
RUN cooperator packages --classes
USER 10001:10001
