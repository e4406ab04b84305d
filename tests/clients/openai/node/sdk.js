// A client with the package openai, over undici (npm install openai undici zod). Only its first lines differ from a program for
// OpenAI's service.
//
// sdk.js chat | stream | async | tools | parse | refuse
'use strict';

const assert = require('node:assert/strict');
const OpenAI = require('openai');
const { zodResponseFormat } = require('openai/helpers/zod');
const { Agent, fetch } = require('undici');
const { z } = require('zod');

const socketPath = process.env.GANGLION_SOCKET ?? '/run/ganglion/openai.sock';
const dispatcher = new Agent({ connect: { socketPath } });
// The host is not used, and the key is ignored: the daemon knows the user of a socket's peer.
const client = new OpenAI({
    baseURL: 'http://localhost/v1', apiKey: 'none', fetch, fetchOptions: { dispatcher },
});

const user = (content) => ({ role: 'user', content });
const ask = (text, more) => client.chat.completions.create({
    model: 'ganglion', messages: [user(text)], max_tokens: 20, ...more,
});
const rooms = ['kitchen', 'hall', 'workshop'];
const go = {
    type: 'function',
    function: {
        name: 'go',
        description: 'Drives to a room.',
        parameters: {
            type: 'object', properties: { room: { enum: rooms } }, required: ['room'], additionalProperties: false,
        },
    },
};

const verbs = {
    async chat() {
        const answer = await ask('Name a colour.', { temperature: 0 });
        const [choice] = answer.choices;
        console.log(choice.message.content, choice.finish_reason);
        assert(choice.message.content && ['stop', 'length'].includes(choice.finish_reason));
        const models = [];
        for await (const model of client.models.list()) models.push(model.id);
        assert.deepEqual(models, [answer.model]);
    },

    async stream() {
        let text = '';
        let last;
        const chunks = await ask('Name a colour.', { stream: true, stream_options: { include_usage: true } });
        for await (const chunk of chunks) {
            text += chunk.choices[0]?.delta.content ?? '';
            last = chunk;
        }
        console.log(text);
        assert(text && last.usage.completion_tokens > 0);
    },

    // Three answers at once, one of which is abandoned.
    async async() {
        const abandoned = (async () => {
            for await (const chunk of await ask('What is green?', { stream: true, max_tokens: 400 })) {
                if (chunk.choices[0]?.delta.content) return 'abandoned';
            }
            return 'ended';
        })();
        const others = ['red', 'blue'].map(async (name) => (await ask(`What is ${name}?`)).choices[0].finish_reason);
        const ends = await Promise.all([abandoned, ...others]);
        console.log(ends);
        assert.equal(ends[0], 'abandoned');
    },

    // The SDK's runner calls the functions and sends their results.
    async tools() {
        const called = [];
        const drive = { ...go.function, parse: JSON.parse, function: ({ room }) => { called.push(room); return `in ${room}`; } };
        const runner = client.chat.completions.runTools({
            model: 'ganglion',
            messages: [user('Drive to the hall.')],
            tools: [{ type: 'function', function: drive }],
            tool_choice: { type: 'function', function: { name: 'go' } },
            max_tokens: 60,
        });
        await runner.done();
        console.log(called);
        assert(called.length > 0 && called.every((room) => rooms.includes(room)));
        // And by hand, with an answer after the call.
        const messages = [user('Drive to the hall.')];
        const first = await ask('', { messages, tools: [go], tool_choice: 'required', max_tokens: 60 });
        const { message } = first.choices[0];
        messages.push(message);
        for (const { id } of message.tool_calls) messages.push({ role: 'tool', tool_call_id: id, content: 'done' });
        const last = await ask('', { messages, tools: [go], tool_choice: 'none' });
        console.log(last.choices[0].message.content);
        assert(['stop', 'length'].includes(last.choices[0].finish_reason));
    },

    async parse() {
        const Plan = z.object({ room: z.enum(rooms), loaded: z.boolean() });
        const answer = await client.chat.completions.parse({
            model: 'ganglion',
            messages: [user('Bring the cup.')],
            response_format: zodResponseFormat(Plan, 'plan'),
            max_tokens: 60,
        });
        const plan = answer.choices[0].message.parsed;
        console.log(plan);
        assert(rooms.includes(plan.room));
    },

    // A field that would change the answer is an error that names it. The extensions are in one field.
    async refuse() {
        await assert.rejects(ask('Name a colour.', { logit_bias: { 1: 5 } }), { status: 400, param: 'logit_bias' });
        const answer = await ask('Left or right?', { ganglion: { choice: ['left', 'right'] } });
        assert(['left', 'right'].includes(answer.choices[0].message.content));
    },
};

verbs[process.argv[2]]().catch((error) => {
    console.error(error);
    process.exitCode = 1;
}).finally(() => dispatcher.close());
