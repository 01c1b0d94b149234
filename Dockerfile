# Two images: `docker build --target operator .` and `docker build --target worker .`
# BASE is any Debian 12 with apt. The tests build the same with buildah (tests/kubernetes/images.py): it makes a layer
# anew when copied files have changed, but not when mounted ones have. So use COPY, never RUN --mount.
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
COPY pyproject.toml images/requirements.py /build/
RUN mkdir /requirements \
 && python /build/requirements.py > /requirements/common.txt \
 && python /build/requirements.py kubernetes opentelemetry > /requirements/operator.txt \
 && python /build/requirements.py spark s3 opentelemetry connect > /requirements/worker.txt

FROM system AS common
COPY --from=requirements /requirements/common.txt /opt/cooperator/requirements/
RUN pip install -q --no-cache-dir -r /opt/cooperator/requirements/common.txt

FROM common AS wheel
COPY pyproject.toml README.md LICENSE /build/
COPY operator /build/operator
RUN pip wheel -q --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheel /build

FROM common AS kubernetes
COPY --from=requirements /requirements/operator.txt /opt/cooperator/requirements/
RUN pip install -q --no-cache-dir -r /opt/cooperator/requirements/operator.txt

FROM kubernetes AS operator
COPY --from=wheel /wheel /opt/cooperator/wheel
RUN pip install -q --no-cache-dir --no-deps /opt/cooperator/wheel/*.whl
# Numbers, so that a kubelet can tell that this is not root.
USER 10001:10001

FROM common AS spark
# Java's package makes links among the manuals, which slim bases do not have. A cluster may choose a user that no file here
# names; Spark asks for its name, and libnss-wrapper gives it one (cooperator.runtime.user).
RUN mkdir -p /usr/share/man/man1 \
 && apt-get update -q \
 && apt-get install -y -q --no-install-recommends openjdk-17-jre-headless procps libnss-wrapper \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin
COPY --from=requirements /requirements/worker.txt /opt/cooperator/requirements/
RUN pip install -q --no-cache-dir -r /opt/cooperator/requirements/worker.txt
ENV COOPERATOR_CACHE=/opt/cooperator/cache

FROM spark AS resolved
COPY operator/cooperator/__init__.py /build/cooperator/
COPY operator/cooperator/artifacts /build/cooperator/artifacts
COPY operator/cooperator/model /build/cooperator/model
RUN PYTHONPATH=/build PYTHONDONTWRITEBYTECODE=1 \
    python -c "from cooperator.artifacts import resolve; [resolve(b, print) for b in ('spark-kafka', 'postgresql', 'spark-s3', 'aws-sdk')]"

# Jars for Kafka, PostgreSQL and for checkpoints in a store, each with the checksum of its lock: nothing is downloaded at run time.
FROM spark AS jars
COPY --from=resolved /opt/cooperator/cache /opt/cooperator/cache

FROM jars AS worker
COPY --from=wheel /wheel /opt/cooperator/wheel
RUN pip install -q --no-cache-dir --no-deps /opt/cooperator/wheel/*.whl
# What Spark loads, as a JVM maps it: members start in half the time. Jars that are added make it void; so do
# this again after them, with --s3 where checkpoints are in a store.
RUN cooperator packages --classes
USER 10001:10001
