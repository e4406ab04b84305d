//! What neither the interfaces nor the bus hold: how a program and a shell call a method.

/// How a method is called.
pub(super) struct Example {
    /// Its interface and its name.
    pub(super) method: &'static str,
    /// Lines of Python after `SETUP` and the examples before it.
    pub(super) python: &'static str,
    /// A command line; empty where a shell cannot hold what the call gives.
    pub(super) shell: &'static str,
}

/// What the examples in Python begin with. Its library is dbus-fast; others differ in names alone.
pub(super) const SETUP: &str = r#"import asyncio, json, os
from dbus_fast import BusType, Variant
from dbus_fast.aio import MessageBus

NAME, ROOT = "org.ganglion.Llm1", "/org/ganglion/Llm1"

async def proxy(path, interface):
    known = await bus.introspect(NAME, path)
    return bus.get_proxy_object(NAME, path, known).get_interface(f"{NAME}.{interface}")

async def frames(fd):    # never blocks the loop; closes the descriptor at the end
    reader, pipe = asyncio.StreamReader(), os.fdopen(fd, "rb")
    reading = lambda: asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(reading, pipe)
    while line := await reader.readline():
        yield json.loads(line)

async def show(fd):
    async for frame in frames(fd):
        print(frame.get("text", ""), end="", flush=True)
        if "done" in frame:
            print("", frame["finish_reason"], frame["usage"], frame.get("message", ""))

bus = await MessageBus(bus_type=BusType.SYSTEM, negotiate_unix_fd=True).connect()
manager = await proxy(ROOT, "Manager")"#;

pub(super) const EXAMPLES: &[Example] = &[
    Example {
        method: "Manager.Generate",
        python: r#"messages = [["user", {"content": Variant("s", "What is odometry?")}]]
path, fd = await manager.call_generate(messages, {"max_tokens": Variant("u", 60)})
await show(fd)"#,
        shell: "ganglionctl ask --max-tokens 60 'What is odometry?'",
    },
    Example {
        method: "Manager.Submit",
        python: r#"path = await manager.call_submit(messages, {"max_tokens": Variant("u", 60)})
request, offset, done = await proxy(path, "Request"), 0, False
while not done:
    text, offset, done = await request.call_read(offset)
    print(text, end="", flush=True)
    await asyncio.sleep(0.25)"#,
        shell: "",
    },
    Example {
        method: "Manager.Complete",
        python: r#"text, info = await manager.call_complete("Name a colour.", {"max_tokens": Variant("u", 20)})
print(text, info["finish_reason"].value)"#,
        shell: "busctl call org.ganglion.Llm1 /org/ganglion/Llm1 org.ganglion.Llm1.Manager \\\n    Complete 'sa{sv}' 'Name a \
                colour.' 2 max_tokens u 20 system s 'Be brief.'\nbusctl call org.ganglion.Llm1 /org/ganglion/Llm1 \
                org.ganglion.Llm1.Manager \\\n    Complete 'sa{sv}' 'And a fruit?' 1 messages 'a(sa{sv})' 2 \\\n    user 1 \
                content s 'Name a colour.' assistant 1 content s 'Red.'\ngdbus call --system --dest org.ganglion.Llm1 \
                --object-path /org/ganglion/Llm1 \\\n    --method org.ganglion.Llm1.Manager.Complete 'Name a colour.' \
                \"{'max_tokens': <20>}\"",
    },
    Example {
        method: "Manager.OpenSession",
        python: r#"path = await manager.call_open_session({"system": Variant("s", "Be brief.")})
session = await proxy(path, "Session")"#,
        shell: "ganglionctl chat --system 'Be brief.'",
    },
    Example {
        method: "Manager.Reload",
        python: "await manager.call_reload()    # as root or of ganglion-admin",
        shell: "sudo systemctl reload gangliond",
    },
    Example {
        method: "Session.Send",
        python: r#"path, fd = await session.call_send("What is odometry?", {"temperature": Variant("d", 0.7)})
await show(fd)"#,
        shell: "printf 'What is odometry?\\nAnd why does it drift?\\n' | ganglionctl chat",
    },
    Example {
        method: "Session.Submit",
        python: r#"path = await session.call_submit("And why does it drift?", {"signals": Variant("b", True)})
request, ended = await proxy(path, "Request"), asyncio.Event()
request.on_delta(lambda seq, text: print(text, end="", flush=True))
request.on_finished(lambda reason, info: ended.set())
if not await request.get_result():    # else it had ended before the lines above
    await ended.wait()"#,
        shell: "",
    },
    Example {
        method: "Session.Rewind",
        python: "await session.call_rewind(1)",
        shell: "printf 'Name a colour.\\n/undo\\nName a fruit.\\n' | ganglionctl chat",
    },
    Example {
        method: "Session.Clear",
        python: "await session.call_clear()",
        shell: "printf 'Name a colour.\\n/clear\\nName a fruit.\\n' | ganglionctl chat",
    },
    Example {
        method: "Session.History",
        python: r#"for role, text in await session.call_history():
    print(f"{role}: {text}")"#,
        shell: "printf 'Name a colour.\\n/history\\n' | ganglionctl chat",
    },
    Example {
        method: "Session.Messages",
        python: r#"messages = await session.call_messages()
messages.append(["user", {"content": Variant("s", "And in one word?")}])
path, fd = await manager.call_generate(messages, {})    # the session knows nothing of it
await show(fd)"#,
        shell: "",
    },
    Example {
        method: "Session.Close",
        python: "await session.call_close()",
        shell: "printf 'Name a colour.\\n' | ganglionctl chat    # closes it at the end of its input",
    },
    Example {
        method: "Request.Read",
        python: r#"path = await manager.call_submit(messages, {})
request = await proxy(path, "Request")
text, offset, done = await request.call_read(0)"#,
        shell: "",
    },
    Example {
        method: "Request.Cancel",
        python: "await request.call_cancel()    # bus.disconnect() cancels as well, and ends sessions",
        shell: "timeout 2 ganglionctl ask 'Tell a long story.'    # leaving the bus cancels as well",
    },
    Example {
        method: "Diagnostics.ResetGraph",
        python: "diagnostics = await proxy(ROOT, \"Diagnostics\")\nawait diagnostics.call_reset_graph()",
        shell: "sudo ganglionctl graph --reset",
    },
    Example {
        method: "Diagnostics.DumpGraph",
        python: "with os.fdopen(await diagnostics.call_dump_graph()) as dot:\n    print(dot.read())",
        shell: "sudo ganglionctl graph --dot graph.dot",
    },
];
