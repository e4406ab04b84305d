//! The bytes with which attackers open connections to the HTTP front end.

/// Returns the openings: nothing, parts of requests, requests whose answers stay unread, and bytes that are not
/// HTTP.
pub(crate) fn openings() -> Vec<String> {
    let health = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let body = |head: &str, bytes: usize| {
        let post = "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n";
        format!("{post}{head}\r\n\r\n{}", "a".repeat(bytes))
    };
    vec![
        String::new(),
        "GET /health HT".to_owned(),
        health.repeat(2000),
        format!(
            "GET /health HTTP/1.1\r\nHost: a\r\nA: {}",
            "a".repeat(1 << 20)
        ),
        format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(1 << 20)),
        body("Content-Length: 16777216", 1 << 20),
        body("Content-Length: 99999999999999999999", 100),
        body("Content-Length: 1\r\nContent-Length: 2", 100),
        body("Transfer-Encoding: chunked", 100),
        body(
            "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff",
            1 << 20,
        ),
        "\0".repeat(100_000),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
    ]
}
