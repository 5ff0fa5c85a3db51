"""Envoy. Its origins are in a file of their own, which it watches (EDS), as a control plane would tell it."""

import json
import os

TYPES = "type.googleapis.com/envoy"
LOG = (
    '%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT% [%START_TIME%] "%REQ(:METHOD)% %REQ(:PATH)% %PROTOCOL%" %RESPONSE_CODE% '
    "%REQ(:AUTHORITY)% %UPSTREAM_HOST% %RESPONSE_DURATION% %DURATION% %BYTES_SENT% %RESPONSE_FLAGS%\n"
)


class Envoy:
    log = "access.log"

    def __init__(self, binary):
        self.name, self.binary, self.program = "Envoy", str(binary), [str(binary), "--version"]

    def configure(self, folder, task, ports):
        listeners = [listener("plain", ports.plain, folder, task), listener("tls", ports.tls, folder, task)]
        listeners[1]["filter_chains"][0]["transport_socket"] = tls(task)
        told = {
            "node": {"id": "peer", "cluster": "peer"},
            "static_resources": {"listeners": listeners, "clusters": [cluster(folder, len(task.addresses))]},
        }
        (folder / "envoy.json").write_text(json.dumps(told, indent=1))
        # Moved into place: only that is seen as a change.
        (folder / "origins.new").write_text(json.dumps(endpoints(task)))
        os.replace(folder / "origins.new", folder / "origins.json")

    def command(self, folder, task, _ports):
        options = ["--disable-hot-restart", "-l", "error", "--file-flush-interval-msec", "1000"]
        return [self.binary, "-c", str(folder / "envoy.json"), "--concurrency", str(task.threads), *options]

    def checked(self, folder):
        return [self.binary, "--mode", "validate", "-l", "error", "-c", str(folder / "envoy.json")]

    def reload(self, _running, _ports):
        """The file was moved into place, and that is all."""


def typed(kind, **fields):
    return {"@type": f"{TYPES}.{kind}", **fields}


def address(at):
    host, _, port = at.rpartition(":")
    return {"socket_address": {"address": host, "port_value": int(port)}}


def endpoints(task):
    origins = [{"endpoint": {"address": address(one)}} for one in task.addresses]
    load = typed("config.endpoint.v3.ClusterLoadAssignment", cluster_name="origin", endpoints=[{"lb_endpoints": origins}])
    return {"resources": [load]}


def cluster(folder, count):
    most = {"max_connections": 1_000_000, "max_pending_requests": 1_000_000, "max_requests": 1_000_000}
    most["max_retries"] = 1000
    check = {
        "timeout": "1s", "interval": "5s", "no_traffic_interval": "5s", "unhealthy_threshold": 3, "healthy_threshold": 2,
        "http_health_check": {"path": "/"},
    }  # fmt: skip
    source = {"resource_api_version": "V3", "path_config_source": {"path": str(folder / "origins.json")}}
    return {
        "name": "origin",
        "type": "EDS",
        "eds_cluster_config": {"eds_config": source},
        "connect_timeout": "1s",
        "lb_policy": "RING_HASH",
        # As many points for an origin as the others give it.
        "ring_hash_lb_config": {"minimum_ring_size": max(1024, 160 * count)},
        "circuit_breakers": {"thresholds": [most]},
        "health_checks": [check],
    }


def listener(name, port, folder, task):
    elsewhere = {
        "name": "envoy.retry_host_predicates.previous_hosts",
        "typed_config": typed("extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate"),
    }
    retry = {
        "retry_on": "connect-failure,reset",
        "num_retries": 1,
        "retry_host_predicate": [elsewhere],
        "host_selection_retry_max_attempts": 5,
    }
    route = {
        "match": {"prefix": "/"},
        "route": {
            "cluster": "origin",
            "timeout": "10s",
            "hash_policy": [{"header": {"header_name": ":authority"}}, {"header": {"header_name": ":path"}}],
            "retry_policy": retry,
        },
    }
    added = {"X-Forwarded-Host": "%REQ(:AUTHORITY)%", "X-Real-IP": "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%"}
    host = {
        "name": "all",
        "domains": ["*"],
        "routes": [route],
        "request_headers_to_add": [
            {"header": {"key": key, "value": value}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
            for key, value in added.items()
        ],
    }
    log = typed(
        "extensions.access_loggers.file.v3.FileAccessLog",
        path=str(folder / "access.log"),
        log_format={"text_format_source": {"inline_string": LOG}},
    )
    manager = typed(
        "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        stat_prefix=name,
        codec_type="AUTO",
        use_remote_address=True,
        common_http_protocol_options={"idle_timeout": "65s"},
        access_log=[{"name": "envoy.access_loggers.file", "typed_config": log}],
        route_config={"name": "all", "virtual_hosts": [host]},
        http_filters=[
            limit(task.limit),
            {
                "name": "envoy.filters.http.router",
                "typed_config": typed("extensions.filters.http.router.v3.Router", suppress_envoy_headers=True),
            },
        ],
    )
    chain = {"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}
    return {
        "name": name,
        "address": address(f"127.0.0.1:{port}"),
        "tcp_backlog_size": 4096,
        "filter_chains": [chain],
    }


def limit(rate):
    """So many a second for each address."""
    bucket = {"max_tokens": rate, "tokens_per_fill": rate, "fill_interval": "1s"}
    always = {"default_value": {"numerator": 100, "denominator": "HUNDRED"}}
    kind = "extensions.filters.http.local_ratelimit.v3.LocalRateLimit"
    described = typed(
        kind,
        stat_prefix="limit",
        token_bucket={**bucket, "max_tokens": 4_000_000_000, "tokens_per_fill": 4_000_000_000},
        filter_enabled=always,
        filter_enforced=always,
        rate_limits=[{"actions": [{"remote_address": {}}]}],
        descriptors=[{"entries": [{"key": "remote_address"}], "token_bucket": bucket}],
        max_dynamic_descriptors=10_000,
    )
    return {"name": "envoy.filters.http.local_ratelimit", "typed_config": described}


def tls(task):
    certificate = {"certificate_chain": {"filename": task.certificate}, "private_key": {"filename": task.key}}
    common = {"alpn_protocols": ["h2", "http/1.1"], "tls_certificates": [certificate]}
    kind = "extensions.transport_sockets.tls.v3.DownstreamTlsContext"
    return {"name": "envoy.transport_sockets.tls", "typed_config": typed(kind, common_tls_context=common)}
