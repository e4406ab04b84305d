//! The program that scenarios run inside a booted system, for the tasks that a shell cannot do. It prints its observations.
//!
//! The scenarios judge most of them.

#[path = "../support/gguf_writer.rs"]
mod gguf_writer;
#[allow(dead_code)] // the tests also write it without a vocabulary
#[path = "../support/tiny_gguf.rs"]
mod tiny_gguf;

#[allow(dead_code, unused_imports)] // the tests do more with it
#[path = "../support/attack/mod.rs"]
mod attack;
#[path = "../support/leaks.rs"]
mod leaks;
#[allow(dead_code, unused_imports)] // the tests do more with it
#[path = "../support/wire/mod.rs"]
mod wire;

#[path = "check/attack.rs"]
mod attacks;
#[path = "check/bare.rs"]
mod bare;
#[path = "check/freeze.rs"]
mod freeze;
#[path = "check/fuzz.rs"]
mod fuzz;
#[path = "check/guides.rs"]
mod guides;
#[path = "check/honest.rs"]
mod honest;
#[path = "check/http.rs"]
mod http;
#[path = "check/journal.rs"]
mod journal;
#[path = "check/leaks.rs"]
mod leaking;
#[path = "check/load.rs"]
mod load;
#[path = "check/outcomes.rs"]
mod outcomes;
#[path = "check/sandbox.rs"]
mod sandbox;
#[path = "check/shapes.rs"]
mod shapes;
#[path = "check/takes.rs"]
mod takes;
#[path = "check/value.rs"]
mod value;

use std::process::ExitCode;

const USAGE: &str = "usage: systemd-check CHECK [ARGUMENT...]
  model FILE             writes a model of 200 KB with a vocabulary
  id EVENT               prints the MESSAGE_ID of an event of the table
  events                 prints the names of all
  fields [FIELD...]      reads journalctl -o json: fails if an event lacks a field of the table other than these; prints the
                         events that did not occur
  sandbox DEVICE...      tries to leave its own sandbox, and prints the actions that succeed
  freeze PID NAME...     stops these threads until the process ends
  ask COUNT TEXT [TIMES] sends COUNT requests at once, and reads each answer; prints the number of each outcome
  talk NAME TEXT...      sends these texts in the session of that name; prints each outcome, then the number of turns
  reload TIMES           reloads the configuration
  hold COUNT TEXT        sends COUNT requests and reads no answer; runs until it is killed
  fuzz SEED ROUNDS       calls every introspected method and property, with arguments made from their signatures
  attacks                prints the hostile users, and the group of each
  attack NAME SECONDS    acts as that hostile user, or as all \"members\" or \"strangers\" at once
  fuzz-wire SEED SECONDS sends random frames
  guides                 prints the attacks with schemas and grammars that take much time or memory
  guides NAME SECONDS [COUNT]
                         sends at most COUNT requests of that attack; prints their outcomes
  shapes SEED SECONDS COUNT
                         sends COUNT random schemas of ten shapes, evenly over the time; prints their outcomes
  takes SECONDS          uses a session while another connection tries to take it, which is refused; prints the outcomes
  honest SECONDS COUNT [GUIDED]
                         runs COUNT clients, GUIDED of them with JSON answers, and one that pings; prints times and errors
  http PLACE PATH [KEY]  gets PATH over HTTP from a socket's path or HOST:PORT, with that key; prints the answer
  bare                   owns the daemon's name, and answers each call at once with nothing
  leaks PID FILE RELOADS CANCELLED SESSIONS
                         prints the resources of that process before and after; FILE is a drop-in to overwrite";

/// The reason why a check could not run or failed.
type Failed = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match *arguments.as_slice() {
        ["model", file] => {
            std::fs::write(file, tiny_gguf::with_vocabulary().file()).map_err(Into::into)
        }
        ["id", event] => journal::print_id(event),
        ["events"] => {
            journal::print_names();
            Ok(())
        }
        ["fields", ref absent @ ..] => journal::fields(absent),
        ["sandbox", ref devices @ ..] => sandbox::probe(devices),
        ["freeze", pid, ref names @ ..] => freeze::freeze(pid, names),
        ["ask", count, text] => load::ask(count, text, "1"),
        ["ask", count, text, times] => load::ask(count, text, times),
        ["talk", name, ref texts @ ..] => load::talk(name, texts),
        ["reload", times] => load::reload(times),
        ["hold", count, text] => load::hold(count, text),
        ["fuzz", seed, rounds] => fuzz::run(seed, rounds),
        ["attacks"] => {
            attacks::list();
            Ok(())
        }
        ["attack", name, seconds] => attacks::run(name, seconds),
        ["fuzz-wire", seed, seconds] => attacks::fuzz(seed, seconds),
        ["leaks", pid, file, reloads, cancelled, sessions] => {
            leaking::run(pid, file, [reloads, cancelled, sessions])
        }
        ["http", place, path] => http::get(place, path, None),
        ["http", place, path, key] => http::get(place, path, Some(key)),
        ["bare"] => bare::run(),
        ["honest", seconds, count] => honest::run(seconds, count, "0"),
        ["honest", seconds, count, guided] => honest::run(seconds, count, guided),
        ["guides"] => {
            guides::list();
            Ok(())
        }
        ["guides", name, seconds] => guides::run(name, seconds, "1000000"),
        ["guides", name, seconds, count] => guides::run(name, seconds, count),
        ["shapes", seed, seconds, count] => shapes::run(seed, seconds, count),
        ["takes", seconds] => takes::run(seconds),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("FAILED: {error}");
            ExitCode::FAILURE
        }
    }
}
