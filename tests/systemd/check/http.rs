//! A request over HTTP, where there is no client for it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use crate::Failed;

/// Prints the status line and the body of the answer to a GET. `place` is the path of a socket, or HOST:PORT.
pub(crate) fn get(place: &str, path: &str, key: Option<&str>) -> Result<(), Failed> {
    let key = key.map_or_else(String::new, |key| {
        format!("Authorization: Bearer {key}\r\n")
    });
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{key}Connection: close\r\n\r\n");
    let mut answer = String::new();
    if place.starts_with('/') {
        let mut stream = UnixStream::connect(place)?;
        stream.write_all(request.as_bytes())?;
        stream.read_to_string(&mut answer)?;
    } else {
        let mut stream = TcpStream::connect(place)?;
        stream.write_all(request.as_bytes())?;
        stream.read_to_string(&mut answer)?;
    }
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("there is no answer")?;
    println!("{}: {body}", head.lines().next().unwrap_or_default());
    Ok(())
}
