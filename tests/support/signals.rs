//! Signals of requests. The subscription precedes the request, so that none is missed.

use futures_util::StreamExt;
use ganglion::bus::proxy::Info;
use zbus::message::Type;
use zbus::{MatchRule, MessageStream, OwnedObjectPath};

use super::daemon::{Client, eventually};

pub(crate) struct Signals {
    stream: MessageStream,
    /// Texts of `Delta` so far.
    pub(crate) text: String,
}

impl Signals {
    pub(crate) async fn listen(client: &Client) -> Self {
        let rule = MatchRule::builder()
            .msg_type(Type::Signal)
            .interface("org.ganglion.Llm1.Request")
            .build()
            .expect("the rule is valid");
        let stream = MessageStream::for_match_rule(rule, &client.connection, None).await;
        Self {
            stream: stream.expect("the bus takes the rule"),
            text: String::new(),
        }
    }

    /// Awaits the end of a request, and returns its reason and details.
    pub(crate) async fn finished(&mut self, request: &OwnedObjectPath) -> (String, Info) {
        let mut next_seq = 0u64;
        loop {
            let signal = eventually(self.stream.next()).await;
            let signal = signal.expect("the bus lives").expect("it is a message");
            let (header, body) = (signal.header(), signal.body());
            if header.path() != Some(&**request) {
                continue;
            }
            if header.member().is_some_and(|member| member == "Finished") {
                return body.deserialize().expect("it has a reason and an info");
            }
            let (seq, text): (u64, String) = body.deserialize().expect("it is a Delta");
            assert_eq!(seq, next_seq, "signals are numbered without a gap");
            next_seq += 1;
            self.text.push_str(&text);
        }
    }
}
