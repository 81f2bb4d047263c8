// Run an agent as a CopilotKit page does, and print its messages and events: node ag_ui.mjs URL
import { HttpAgent } from "@ag-ui/client";

const initialMessages = [{ id: "m1", role: "user", content: "Hi?" }];
const agent = new HttpAgent({ url: process.argv[2], threadId: "t1", initialMessages });
const tools = [{ name: "weather", description: "The weather", parameters: { type: "object" } }];
const events = [];
const errors = [];
try {
  await agent.runAgent({ runId: "r1", tools }, { onEvent: ({ event }) => void events.push(event) });
} catch (error) {
  errors.push(error.message);
}
console.log(JSON.stringify({ messages: agent.messages, events, errors }));
