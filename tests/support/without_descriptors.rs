//! A connection to the bus without file descriptors, which is the default of some libraries.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use zbus::connection::socket::{ReadHalf, Socket, Split, WriteHalf};
use zbus::connection::{Builder, Connection};
use zbus::export::async_trait::async_trait;

use super::private_bus::PrivateBus;

pub(crate) async fn connect(bus: &PrivateBus) -> Connection {
    let stream = UnixStream::connect(bus.socket()).await;
    let plain = Plain(stream.expect("the bus listens"));
    let connection = Builder::socket(plain).build().await;
    connection.expect("the bus takes a connection")
}

#[derive(Debug)]
struct Plain(UnixStream);

#[derive(Debug)]
struct Read(OwnedReadHalf);

#[derive(Debug)]
struct Write(OwnedWriteHalf);

impl Socket for Plain {
    type ReadHalf = Read;
    type WriteHalf = Write;

    fn split(self) -> Split<Read, Write> {
        let (read, write) = self.0.into_split();
        Split::new(Read(read), Write(write))
    }
}

#[async_trait]
impl ReadHalf for Read {
    async fn recvmsg(&mut self, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        Ok((self.0.read(buffer).await?, Vec::new()))
    }

    fn can_pass_unix_fd(&self) -> bool {
        false
    }
}

#[async_trait]
impl WriteHalf for Write {
    async fn sendmsg(&mut self, bytes: &[u8], _: &[BorrowedFd<'_>]) -> io::Result<usize> {
        self.0.write(bytes).await
    }

    async fn close(&mut self) -> io::Result<()> {
        self.0.shutdown().await
    }

    fn can_pass_unix_fd(&self) -> bool {
        false
    }
}
