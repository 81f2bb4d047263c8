// Ask a backend as `useChat` does, and print the message that comes of it: node ai_sdk.mjs URL
import { DefaultChatTransport, readUIMessageStream } from "ai";

const messages = [{ id: "m1", role: "user", parts: [{ type: "text", text: "Hi?" }] }];
const transport = new DefaultChatTransport({ api: process.argv[2] });
const stream = await transport.sendMessages({ trigger: "submit-message", chatId: "c1", messages });
const errors = [];
const chunks = [];
const seen = stream.pipeThrough(
  new TransformStream({
    transform(chunk, controller) {
      chunks.push(chunk.type);
      controller.enqueue(chunk);
    },
  }),
);
let message = null;
for await (const state of readUIMessageStream({ stream: seen, onError: (error) => errors.push(error.message) })) {
  message = state;
}
console.log(JSON.stringify({ message, errors, chunks }));
