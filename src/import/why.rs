//! Why is a directive not carried? One table for all that are known by name; what is in none of its lists is not known.

use super::notes::Notes;
use super::reader::Directive;

/// Where a directive stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Block {
    Main,
    Http,
    Server,
    Location,
    Upstream,
}

/// Read by whoever is concerned with them, who also says what of them is not carried.
const CARRIED: [&str; 95] = [
    "access_log",
    "add_header",
    "allow",
    "client_body_timeout",
    "client_header_timeout",
    "client_max_body_size",
    "default_type",
    "deny",
    "error_page",
    "expires",
    "grpc_connect_timeout",
    "grpc_next_upstream",
    "grpc_next_upstream_timeout",
    "grpc_next_upstream_tries",
    "grpc_pass",
    "grpc_read_timeout",
    "grpc_send_timeout",
    "grpc_set_header",
    "grpc_hide_header",
    "gzip",
    "gzip_min_length",
    "gzip_types",
    "brotli",
    "brotli_types",
    "http2",
    "if",
    "internal",
    "keepalive_requests",
    "keepalive_timeout",
    "large_client_header_buffers",
    "limit_conn",
    "limit_conn_dry_run",
    "limit_conn_status",
    "limit_conn_zone",
    "limit_except",
    "limit_rate",
    "limit_req",
    "limit_req_dry_run",
    "limit_req_status",
    "limit_req_zone",
    "listen",
    "location",
    "map",
    "mirror",
    "mirror_request_body",
    "proxy_connect_timeout",
    "proxy_hide_header",
    "proxy_http_version",
    "proxy_next_upstream",
    "proxy_next_upstream_timeout",
    "proxy_next_upstream_tries",
    "proxy_pass",
    "proxy_read_timeout",
    "proxy_redirect",
    "proxy_send_timeout",
    "proxy_set_header",
    "proxy_ssl_certificate",
    "proxy_ssl_certificate_key",
    "proxy_ssl_name",
    "proxy_ssl_server_name",
    "proxy_ssl_trusted_certificate",
    "proxy_ssl_verify",
    "real_ip_header",
    "real_ip_recursive",
    "resolver",
    "return",
    "rewrite",
    "send_timeout",
    "server",
    "server_name",
    "set",
    "set_real_ip_from",
    "split_clients",
    "ssl_certificate",
    "ssl_certificate_key",
    "ssl_client_certificate",
    "ssl_protocols",
    "ssl_session_ticket_key",
    "ssl_verify_client",
    "try_files",
    "upstream",
    "auth_basic",
    "auth_request",
    "auth_jwt",
    "secure_link",
    "root",
    "alias",
    "satisfy",
    "ssl",
    "grpc_ssl_certificate",
    "grpc_ssl_certificate_key",
    "grpc_ssl_name",
    "grpc_ssl_server_name",
    "grpc_ssl_trusted_certificate",
    "grpc_ssl_verify",
];

/// Of an upstream.
const CARRIED_UPSTREAM: [&str; 12] = [
    "server",
    "hash",
    "ip_hash",
    "least_conn",
    "random",
    "least_time",
    "keepalive",
    "keepalive_timeout",
    "keepalive_requests",
    "keepalive_time",
    "sticky",
    "resolver",
];

/// What nginx needs to be told, and this gateway does by itself or not at all without a difference.
const NEEDLESS: [&str; 84] = [
    "sendfile",
    "sendfile_max_chunk",
    "tcp_nopush",
    "tcp_nodelay",
    "types_hash_max_size",
    "types_hash_bucket_size",
    "server_names_hash_bucket_size",
    "server_names_hash_max_size",
    "map_hash_bucket_size",
    "map_hash_max_size",
    "variables_hash_max_size",
    "variables_hash_bucket_size",
    "proxy_headers_hash_max_size",
    "proxy_headers_hash_bucket_size",
    "server_tokens",
    "gzip_vary",
    "gzip_proxied",
    "gzip_comp_level",
    "gzip_buffers",
    "gzip_http_version",
    "gzip_disable",
    "brotli_comp_level",
    "proxy_buffering",
    "proxy_buffers",
    "proxy_buffer_size",
    "proxy_busy_buffers_size",
    "proxy_max_temp_file_size",
    "proxy_temp_file_write_size",
    "proxy_temp_path",
    "proxy_request_buffering",
    "client_body_buffer_size",
    "client_body_temp_path",
    "client_header_buffer_size",
    "client_body_in_file_only",
    "fastcgi_temp_path",
    "uwsgi_temp_path",
    "scgi_temp_path",
    "reset_timedout_connection",
    "ssl_session_cache",
    "ssl_session_timeout",
    "ssl_session_tickets",
    "ssl_buffer_size",
    "ssl_dhparam",
    "ssl_prefer_server_ciphers",
    "ssl_ecdh_curve",
    "open_file_cache",
    "open_file_cache_valid",
    "open_file_cache_min_uses",
    "open_file_cache_errors",
    "log_not_found",
    "log_subrequest",
    "error_log",
    "pid",
    "user",
    "worker_rlimit_nofile",
    "worker_cpu_affinity",
    "worker_priority",
    "worker_shutdown_timeout",
    "load_module",
    "daemon",
    "master_process",
    "events",
    "pcre_jit",
    "env",
    "lock_file",
    "thread_pool",
    "limit_req_log_level",
    "limit_conn_log_level",
    "zone",
    "proxy_socket_keepalive",
    "grpc_buffer_size",
    "grpc_socket_keepalive",
    "resolver_timeout",
    "proxy_ssl_session_reuse",
    "http2_max_concurrent_streams",
    "http2_recv_buffer_size",
    "server_name_in_redirect",
    "port_in_redirect",
    "absolute_redirect",
    "lingering_close",
    "working_directory",
    "worker_processes",
    "proxy_pass_header",
    "lingering_timeout",
];

/// Beginnings of names, and why nothing stands for them.
const REASONS: [(&str, &str); 39] = [
    ("proxy_cache", "nothing is cached here"),
    ("proxy_no_cache", "nothing is cached here"),
    ("proxy_store", "nothing is cached here"),
    ("proxy_ignore_headers", "nothing is cached here, and no X-Accel header is obeyed"),
    ("fastcgi_", "no FastCGI is spoken here: leave an nginx in front of such an application, as an origin"),
    ("uwsgi_", "no uwsgi is spoken here: let the application speak HTTP"),
    ("scgi_", "no SCGI is spoken here: let the application speak HTTP"),
    ("memcached_", "no memcached is asked here"),
    ("auth_", "nobody is asked for a password here"),
    ("autoindex", "no files are served here"),
    ("index", "no files are served here"),
    ("types", "no files are served here"),
    ("disable_symlinks", "no files are served here"),
    ("gzip_static", "no files are served here"),
    ("etag", "no files are served here"),
    ("sub_filter", "bodies are passed on as they come"),
    ("ssi", "bodies are passed on as they come"),
    ("charset", "bodies are passed on as they come"),
    ("image_filter", "bodies are passed on as they come"),
    ("addition_types", "bodies are passed on as they come"),
    ("add_before_body", "bodies are passed on as they come"),
    ("add_after_body", "bodies are passed on as they come"),
    ("perl", "no programs run here"),
    ("js_", "no programs run here"),
    ("geo", "nothing is looked up by address here but \"access\" and \"trusted_proxies\""),
    ("log_format", "formats are written in \"process.access_log\" (docs/observability.md)"),
    ("stub_status", "the admin address has /metrics and /status"),
    ("ssl_stapling", "no OCSP is stapled"),
    ("ssl_trusted_certificate", "no OCSP is stapled"),
    ("ssl_ciphers", "the ciphers of docs/tls.md are spoken: forward secrecy and authenticated encryption alone"),
    ("ssl_crl", "no revocation lists are read"),
    ("ssl_verify_depth", "chains are as long as they are"),
    ("limit_rate_after", "\"limits.bandwidth\" holds from the first byte"),
    ("proxy_cookie_", "cookies are passed on as they come"),
    ("proxy_bind", "the system chooses the address that origins are asked from"),
    ("proxy_intercept_errors", "answers of origins are passed on as they come"),
    ("mail", "only HTTP is served here"),
    ("stream", "only HTTP is served here"),
    ("include", "there is no such file"),
];

/// Says what nobody reads of what stands in this block.
pub(super) fn tell(block: Block, directives: &[Directive], notes: &mut Notes) {
    for directive in directives {
        let name = directive.name.as_str();
        let carried = match block {
            Block::Upstream => CARRIED_UPSTREAM.contains(&name),
            Block::Main => name == "http",
            Block::Http | Block::Server | Block::Location => CARRIED.contains(&name),
        };
        if carried {
            carried_in_part(block, directive, directives, notes);
            continue;
        }
        if NEEDLESS.contains(&name) {
            notes.needless(directive);
            continue;
        }
        notes.dropped(directive, reason(name));
    }
}

/// What is said for all clients, wherever nginx lets it be said.
const ONCE: [&str; 11] = [
    "keepalive_timeout",
    "keepalive_requests",
    "send_timeout",
    "client_body_timeout",
    "client_header_timeout",
    "large_client_header_buffers",
    "resolver",
    "set_real_ip_from",
    "real_ip_header",
    "real_ip_recursive",
    "ssl_certificate",
];

/// What is read, but not everywhere or not for everything.
fn carried_in_part(block: Block, directive: &Directive, beside: &[Directive], notes: &mut Notes) {
    let is_passed_on = beside.iter().any(|it| it.name == "proxy_pass" || it.name == "grpc_pass");
    match directive.name.as_str() {
        "root" | "alias" | "try_files" if block != Block::Location || is_passed_on => notes.needless(directive),
        "error_page" if directive.args.last().is_some_and(|last| last.starts_with('@')) => {
            notes.differs(directive, "a `return` of such a status leads there, an answer of an origin does not");
        }
        "error_page" => notes
            .dropped(directive, "answers of origins are passed on as they come, our own errors have their own words"),
        name if block == Block::Location && ONCE.contains(&name) => {
            notes.dropped(directive, "it is said once for all requests here, not for a location");
        }
        _ => {}
    }
}

fn reason(name: &str) -> &'static str {
    if name.ends_with("_by_lua") || name.contains("_by_lua_") || name.starts_with("lua_") {
        return "no programs run here";
    }
    let found = REASONS.iter().find(|(begins, _)| name.starts_with(begins));
    found.map_or("this directive is not known to the import", |(_, why)| why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_stands_in_one_list() {
        let mut names: Vec<_> = CARRIED.into_iter().chain(NEEDLESS).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        for name in CARRIED_UPSTREAM {
            assert!(!NEEDLESS.contains(&name), "{name}");
        }
    }
}
