//! HTTP as bytes on a socket, so that a test can break its rules.

use std::io;
use std::path::Path;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::support::daemon::eventually;

pub(super) const HEALTH: &str = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Sends a request, and returns the status and the body of the answer.
pub(super) async fn ask(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    request: &str,
) -> io::Result<(u16, String)> {
    stream.write_all(request.as_bytes()).await?;
    eventually(answer(stream)).await
}

/// Asks on a connection of its own.
pub(super) async fn ask_at(path: &Path, request: &str) -> io::Result<(u16, String)> {
    let mut stream = UnixStream::connect(path).await?;
    ask(&mut stream, request).await
}

/// Reads the next answer, which has a length.
async fn answer(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<(u16, String)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    let length = head.split("content-length: ").nth(1);
    let length = length.and_then(|rest| rest.split("\r\n").next()?.parse().ok());
    let (Some(status), Some(length)) = (status, length) else {
        panic!("{head}");
    };
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}
