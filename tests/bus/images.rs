//! Images in messages: parts are checked one by one, descriptors reach the daemon, and a model without a tower refuses them.

use std::io::Write as _;
use std::os::fd::OwnedFd;

use ganglion::bus::Error;
use ganglion::bus::proxy::Fields;
use ganglion::front::{self, ImageLimits};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::pipe;
use zbus::{Fd, Variant};

use super::fields;
use crate::support::daemon::{Client, Daemon, until};
use crate::support::stream::Reader;

/// A file in memory, as a part has it.
fn memfd(bytes: &[u8]) -> Variant<'static> {
    let file = memfd_create("image", MFdFlags::MFD_ALLOW_SEALING).expect("a memfd");
    let mut file = std::fs::File::from(file);
    file.write_all(bytes).expect("it is written");
    descriptor(OwnedFd::from(file))
}

fn descriptor(file: OwnedFd) -> Variant<'static> {
    Fd::Owned(file).into()
}

/// A PNG file of this size, without pixels.
fn png(width: u32, height: u32) -> Vec<u8> {
    let mut file = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
    file.extend(width.to_be_bytes());
    file.extend(height.to_be_bytes());
    file.extend([8, 2, 0, 0, 0]);
    let crc = file[12..].iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    });
    file.extend((!crc).to_be_bytes());
    file.extend(b"\0\0\0\0IDAT\x35\xaf\x06\x1e\0\0\0\0IEND\xae\x42\x60\x82");
    file
}

/// A frame of 4 x 2 grey pixels, with further fields.
fn grey<'a, const N: usize>(image: Variant<'a>, more: [(&'a str, Variant<'a>); N]) -> Fields<'a> {
    let mut part = fields([
        ("image", image),
        ("format", "gray8".into()),
        ("width", 4u32.into()),
        ("height", 2u32.into()),
    ]);
    part.extend(more);
    part
}

/// Asks with these parts.
async fn show(client: &Client, parts: Vec<Fields<'_>>) -> Result<String, Error> {
    let message = ("user", fields([("parts", parts.into())]));
    let (_, stream) = client.manager.generate(&[message], fields([])).await?;
    Ok(Reader::new(stream).answer().await.text)
}

/// Returns the text of the error of invalid messages.
async fn refusal(client: &Client, parts: Vec<Fields<'_>>) -> String {
    match show(client, parts).await {
        Err(Error::InvalidMessages(why)) => why,
        other => panic!("{other:?}"),
    }
}

fn text(text: &str) -> Fields<'_> {
    fields([("text", text.into())])
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_are_checked_each() {
    let daemon = Daemon::start("images=1").await;
    let client = daemon.client().await;
    let frame = || memfd(b"12345678");
    let cases: Vec<(Fields<'_>, &str)> = vec![
        (fields([]), "it has no content; add one of \"text\""),
        (
            fields([("picture", 1u32.into())]),
            "unknown field \"picture\"; known are text, image, data",
        ),
        (
            fields([("text", 1u32.into())]),
            "its \"text\" is 1; it must be a text",
        ),
        (
            fields([("image", "/etc/passwd".into())]),
            "its \"image\" is \"/etc/passwd\"; it must be a file descriptor",
        ),
        (
            fields([("data", frame())]),
            "its \"data\" is of type h; it must be bytes",
        ),
        (
            fields([("text", "a".into()), ("image", frame())]),
            "give each a part of its own",
        ),
        (
            fields([("text", "a".into()), ("width", 4u32.into())]),
            "it has \"width\" and no image",
        ),
        (
            fields([("image", frame()), ("format", "gif".into())]),
            "it must be one of auto, jpeg, png, webp, rgb24",
        ),
        (
            grey(frame(), [("stride", 0u32.into())]),
            "its \"stride\" is 0; it must be from 1",
        ),
        (
            grey(frame(), [("width", "4".into())]),
            "its \"width\" is \"4\"; it must be a whole number",
        ),
        (
            grey(frame(), [("color", "srgb".into())]),
            "it must be one of bt601, bt709",
        ),
        (
            grey(frame(), [("range", "half".into())]),
            "it must be one of limited, full",
        ),
        (
            grey(frame(), [("max_tokens", 1025u32.into())]),
            "its \"max_tokens\" is 1025; it must be from 1 to 1024 (vision.max_tokens)",
        ),
        // From here on, the image itself is wrong.
        (
            grey(frame(), [("height", 3u32.into())]),
            "send the whole frame",
        ),
        (grey(frame(), [("stride", 3u32.into())]), "stride = 3"),
        (grey(frame(), [("format", "nv12".into())]), "needs `color`"),
        (fields([("image", frame())]), "no JPEG, PNG or WebP file"),
        (fields([("image", memfd(b""))]), "has no bytes"),
        (
            fields([("image", memfd(&png(60_000, 60_000)))]),
            "60000 x 60000 pixels, and at most 16777216 are allowed",
        ),
        (
            fields([("image", descriptor(pipe().expect("a pipe").0))]),
            "its descriptor is a pipe; send a memfd or a regular file",
        ),
    ];
    for (part, hint) in cases {
        let why = refusal(&client, vec![text("What is it?"), part]).await;
        assert!(
            why.starts_with("message 0: part 1: ") && why.contains(hint),
            "{hint}: {why}"
        );
    }
    let both = ("content", "a".into());
    let message = ("user", fields([both, ("parts", vec![text("b")].into())]));
    let refused = client.manager.generate(&[message], fields([])).await;
    assert!(
        matches!(&refused, Err(Error::InvalidMessages(why)) if why.contains("both \"content\" and \"parts\"")),
        "{refused:?}"
    );
    let data = fields([
        ("data", b"12345678"[..].to_vec().into()),
        ("format", "gray8".into()),
        ("width", 4u32.into()),
        ("height", 2u32.into()),
    ]);
    let parts = vec![text("one "), grey(frame(), []), data, text("two")];
    assert_eq!(show(&client, parts).await.unwrap(), "sim: one two");
}

/// Each call that takes messages takes images, and a reload changes their number.
#[tokio::test(flavor = "multi_thread")]
async fn all_calls_take_images_within_their_limit() {
    let settings = front::Config {
        images: ImageLimits {
            max_images: 1,
            ..ImageLimits::default()
        },
        ..front::Config::default()
    };
    let daemon = Daemon::with("images=1", 8, settings).await;
    let client = daemon.client().await;
    let said = |number: usize| {
        let mut parts: Vec<_> = (0..number).map(|_| grey(memfd(b"12345678"), [])).collect();
        parts.push(text("here"));
        vec![("user", fields([("parts", parts.into())]))]
    };
    let manager = &client.manager;
    let session = manager.open_session(fields([])).await.expect("a session");
    let session = client.session(session).await;
    for (number, takes) in [(1, true), (2, false)] {
        let messages = || fields([("messages", said(number).into())]);
        let results = [
            manager.generate(&said(number), fields([])).await.map(drop),
            manager.submit(&said(number), fields([])).await.map(drop),
            manager.complete("what?", messages()).await.map(drop),
            manager.open_session(messages()).await.map(drop),
            session.append(&said(number)).await,
            session.reply(&said(number), fields([])).await.map(drop),
        ];
        for (at, result) in results.into_iter().enumerate() {
            match result {
                Ok(()) => assert!(takes, "{at}"),
                Err(Error::InvalidMessages(why)) => {
                    assert!(!takes && why.contains("at most 1 are taken"), "{at}: {why}");
                }
                other => panic!("{at}: {other:?}"),
            }
        }
    }
    daemon.configure(front::Config::default());
    let taken = manager.complete("what?", fields([("messages", said(2).into())]));
    taken.await.expect("two images are allowed now");
}

/// The bytes of images count while a request or a session has them.
#[tokio::test(flavor = "multi_thread")]
async fn images_count_until_their_session_forgets_them() {
    // The images of one user may have 8 MiB then.
    let settings = front::Config {
        images: ImageLimits {
            max_pixels: 1 << 20,
            ..ImageLimits::default()
        },
        ..front::Config::default()
    };
    let daemon = Daemon::with("images=1", 8, settings).await;
    let client = daemon.client().await;
    let page = vec![7; 1 << 20];
    let said = || {
        let image = fields([
            ("image", memfd(&page)),
            ("format", "gray8".into()),
            ("width", 1024u32.into()),
            ("height", 1024u32.into()),
        ]);
        [(
            "user",
            fields([("parts", vec![text("one "), image].into())]),
        )]
    };
    let held = || {
        daemon
            .engine
            .image_quota()
            .of_user(nix::unistd::geteuid().as_raw())
    };
    let session = client
        .manager
        .open_session(fields([]))
        .await
        .expect("a session");
    let session = client.session(session).await;
    for pages in 1..=7 {
        session.append(&said()).await.expect("there is room");
        assert_eq!(held(), pages << 20);
    }
    let (_, stream) = session
        .reply(&said(), fields([]))
        .await
        .expect("it is sent");
    let answer = Reader::new(stream).answer().await;
    // A word and an image in each message.
    assert_eq!(
        (answer.usage.prompt_tokens, answer.text.as_str()),
        (16, "sim: one")
    );
    let refused = client.manager.generate(&said(), fields([])).await;
    assert!(
        matches!(&refused, Err(Error::QuotaExceeded(why)) if why.contains("close or clear a session")),
        "{refused:?}"
    );
    let messages = session.messages().await.expect("they are read");
    let places = Vec::<u32>::try_from(messages[7].1["images"].clone());
    assert_eq!(places.expect("numbers"), [4]);
    let fields_of = messages[7].1.iter();
    let fields_of = fields_of.map(|(name, value)| (&**name, value.clone().into()));
    let returned = [("user", fields_of.collect())];
    let returned = session.append(&returned).await;
    assert!(
        matches!(&returned, Err(Error::InvalidMessages(why)) if why.contains("send the images again")),
        "{returned:?}"
    );
    session.clear().await.expect("it is cleared");
    let (_, stream) = client
        .manager
        .generate(&said(), fields([]))
        .await
        .expect("there is room");
    Reader::new(stream).answer().await;
    until(async || held() == 0).await;
    let alone = said().map(|(role, _)| {
        (
            role,
            fields([("parts", vec![grey(memfd(b"12345678"), [])].into())]),
        )
    });
    let (_, stream) = session
        .reply(&alone, fields([]))
        .await
        .expect("an image is a message");
    assert_eq!(Reader::new(stream).answer().await.text, "sim:");
    session.close().await.expect("it is closed");
    until(async || held() == 0).await;
}

/// A model without a tower refuses an image before it is read; text in parts needs no tower.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_without_a_tower_takes_no_images() {
    let daemon = Daemon::start("").await;
    let client = daemon.client().await;
    // The daemon would notice that it is a pipe.
    let image = fields([("image", descriptor(pipe().expect("a pipe").0))]);
    match show(&client, vec![text("What is it?"), image]).await {
        Err(Error::NotSupported(why)) => assert!(why.contains("has no vision tower"), "{why}"),
        other => panic!("{other:?}"),
    }
    let answer = show(&client, vec![text("one "), text("two")]).await;
    assert_eq!(answer.unwrap(), "sim: one two");
}
