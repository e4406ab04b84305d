//! `ask --image` and `/image` of `chat`: the file's descriptor reaches the daemon, and each failure names the file or the
//! reason.

use super::{run, run_with_input, text};
use crate::support::daemon::Daemon;

/// A GIF file, which no model takes.
const GIF: &[u8] = b"GIF89a..";

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_shown_with_the_question() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [frame, gif, missing] =
        ["frame.png", "frame.gif", "none.png"].map(|name| folder.path().join(name));
    std::fs::write(&frame, include_bytes!("../golden/vision/files/deep.png"))
        .expect("it is written");
    std::fs::write(&gif, GIF).expect("it is written");
    let [frame, gif, missing] = [&frame, &gif, &missing].map(|path| text(path));
    let seeing = Daemon::start("images=1").await;
    let blind = Daemon::start("").await;
    let folder = text(folder.path());
    for (daemon, image, code, why) in [
        (&seeing, frame, 0, ""),
        (
            &seeing,
            gif,
            65,
            "message 0: part 0: the image starts with 47 49 46 38",
        ),
        (&blind, frame, 69, "takes no images"),
        (&blind, missing, 65, "none.png: No such file"),
        (&blind, folder, 65, "it is not a file"),
    ] {
        let bus = daemon.bus.text();
        let asked = run(&[
            "--bus", bus, "ask", "--quiet", "--image", image, "one", "two",
        ])
        .await;
        assert_eq!(asked.code, Some(code), "{image}: {asked:?}");
        assert!(asked.stderr.contains(why), "{asked:?}");
        assert_eq!(
            asked.stdout.trim_end(),
            if code == 0 { "sim: one two" } else { "" }
        );
    }
    // A refused message takes its image with it.
    let typed = format!("/image {missing}\n/image {frame}\none two\nthree\n");
    for (daemon, answers) in [(&seeing, 2), (&blind, 1)] {
        let chat = run_with_input(&["--bus", daemon.bus.text(), "chat"], &typed).await;
        assert_eq!(chat.code, Some(1), "{chat:?}");
        assert!(chat.stderr.contains("none.png"), "{chat:?}");
        assert_eq!(chat.stdout.matches("sim: ").count(), answers, "{chat:?}");
        assert_eq!(
            chat.stderr.contains("takes no images"),
            answers == 1,
            "{chat:?}"
        );
    }
}
