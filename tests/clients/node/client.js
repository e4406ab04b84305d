// A client in Node with dbus-next (npm install dbus-next). Without the native module usocket dbus-next takes no file
// descriptors, so this client uses Submit, and reads by calls or by signals.
//
// client.js generate | session | cancel | complete | signals | reconnect
'use strict';

const assert = require('node:assert');
const { setTimeout: pause } = require('node:timers/promises');
const dbus = require('dbus-next');

const { Variant } = dbus;
const NAME = 'org.ganglion.Llm1';
const ROOT = '/org/ganglion/Llm1';
const bus = dbus.systemBus();

const user = (text) => [['user', { content: new Variant('s', text) }]];
const tokens = (most) => ({ max_tokens: new Variant('u', most) });

async function proxy(path, name) {
    const object = await bus.getProxyObject(NAME, path);
    return object.getInterface(`${NAME}.${name}`);
}

const manager = () => proxy(ROOT, 'Manager');

// dbus-next's proxies read no properties.
async function property(path, name, key) {
    const object = await bus.getProxyObject(NAME, path);
    const properties = object.getInterface('org.freedesktop.DBus.Properties');
    return (await properties.Get(`${NAME}.${name}`, key)).value;
}

// Prints a submitted answer as it arrives, and returns its finish reason.
async function show(path) {
    const request = await proxy(path, 'Request');
    for (let offset = 0n, done = false; !done;) {
        let text;
        [text, offset, done] = await request.Read(offset);
        process.stdout.write(text);
        if (!done) await pause(100);
    }
    const result = await property(path, 'Request', 'Result');
    console.log('', result.finish_reason.value, 'seed', result.seed.value);
    return result.finish_reason.value;
}

const verbs = {
    async generate() {
        const path = await (await manager()).Submit(user('hello'), tokens(20));
        assert.equal(await show(path), 'length');
        // A call that needs a descriptor fails at once.
        const refused = (await manager()).Generate(user('hello'), {});
        await assert.rejects(refused, { type: 'org.ganglion.Llm1.Error.NotSupported' });
    },

    async session() {
        const path = await (await manager()).OpenSession({ system: new Variant('s', 'Be brief.') });
        const session = await proxy(path, 'Session');
        for (const text of ['hello', 'and again']) await show(await session.Submit(text, tokens(10)));
        assert.equal((await session.Messages()).length, 5);
        await session.Close();
    },

    async cancel() {
        const ganglion = await manager();
        // Others are answered at the same time, so that this answer is not at its end before the call.
        for (let others = 0; others < 8; others += 1) await ganglion.Submit(user('hello'), tokens(400));
        const path = await ganglion.Submit(user('hello'), tokens(400));
        // The path is enough to use a request.
        await bus.call(new dbus.Message({
            destination: NAME, path, interface: `${NAME}.Request`, member: 'Cancel',
        }));
        assert.equal(await show(path), 'cancelled');
    },

    async complete() {
        const [text, info] = await (await manager()).Complete('hello', tokens(10));
        console.log(text, info.finish_reason.value);
    },

    async signals() {
        const options = { ...tokens(20), signals: new Variant('b', true) };
        const path = await (await manager()).Submit(user('hello'), options);
        const request = await proxy(path, 'Request');
        request.on('Delta', (seq, text) => process.stdout.write(text));
        const ended = new Promise((resolve) => request.on('Finished', resolve));
        // The request may have ended before the subscription.
        const result = await property(path, 'Request', 'Result');
        if (Object.keys(result).length === 0) await ended;
        console.log();
    },

    // A restarted daemon forgets its sessions; the conversation continues from this program's copy.
    async reconnect() {
        const object = await bus.getProxyObject('org.freedesktop.DBus', '/org/freedesktop/DBus');
        const restarted = new Promise((resolve) => {
            const names = object.getInterface('org.freedesktop.DBus');
            names.on('NameOwnerChanged', (name, before, now) => name === NAME && now && resolve());
        });
        const daemon = await manager();
        const session = await proxy(await daemon.OpenSession({}), 'Session');
        await show(await session.Submit('hello', tokens(10)));
        const kept = await session.Messages();
        console.log('restart the daemon');
        await restarted;
        await assert.rejects(session.Clear(), { type: 'org.freedesktop.DBus.Error.UnknownObject' });
        await show(await daemon.Submit([...kept, ...user('and again')], tokens(10)));
    },
};

verbs[process.argv[2]]().then(
    () => bus.disconnect(),
    (error) => {
        console.error(error);
        process.exit(1);
    },
);
