//! Options of single requests.

use super::given::GivenOptions;
use super::read::{Read, read};
use super::table::Scope;
use crate::engine::Options;
use crate::front::config::Config;
use crate::front::error::Error;
use crate::front::messages::GivenMessages;

/// Reads the options of a request.
pub fn request(given: &GivenOptions, config: &Config) -> Result<Options, Error> {
    read(given, config, &[Scope::Request]).map(|read| read.request)
}

/// A request whose whole answer is one reply, without its prompt.
#[derive(Debug)]
pub struct Completion {
    pub options: Options,
    pub system: Option<String>,
    /// The messages before the prompt.
    pub earlier: GivenMessages,
}

/// Reads the options of a request whose whole answer is one reply.
pub fn completion(given: &GivenOptions, config: &Config) -> Result<Completion, Error> {
    let scopes = [Scope::Request, Scope::Conversation, Scope::Completion];
    let Read {
        request,
        system,
        messages,
        ..
    } = read(given, config, &scopes)?;
    Ok(Completion {
        options: request,
        system,
        earlier: messages,
    })
}
