//! How far the reading of a prompt has got, for a person who waits: a long one takes a CPU minutes.

use ganglion::bus::proxy::RequestProxy;

/// What there is to be said of it; nothing while the request waits, or once the prompt is read.
pub(super) async fn line(request: &RequestProxy<'_>) -> Option<String> {
    let (read, of) = request.reading().await.ok()?;
    (read < of).then(|| format!("reading: {read} of {of} tokens"))
}
