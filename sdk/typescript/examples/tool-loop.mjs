// A loop in OpenAI's manner: the model asks for tools until it has an answer.
//
// `complete` is the only thing that knows a model: messages and tools in, a message out, as chat completions have
// them. Here it is scripted.

import { Sandbox, SandboxError } from "cay-sandbox";

export const TOOLS = [
  {
    type: "function",
    function: {
      name: "run_code",
      description: "Runs Python. Variables and files stay from one call to the next; the last value is returned.",
      parameters: { type: "object", properties: { code: { type: "string" } }, required: ["code"] },
    },
  },
];

// The text for the model. It is never an error: a model can act on words.
async function call(sandbox, name, text) {
  try {
    const { code } = JSON.parse(text);
    if (name !== "run_code" || typeof code !== "string") return "[there is run_code, with code]";
    const result = await sandbox.runCode(code, { context: "main", timeout: 60, output: "32k" });
    return `${result}` || "[done]";
  } catch (error) {
    if (error instanceof SandboxError || error instanceof SyntaxError || error instanceof TypeError)
      return `[${error.message}]`;
    throw error;
  }
}

export async function answer(question, complete, turns = 20) {
  const messages = [{ role: "user", content: question }];
  const sandbox = await Sandbox.create({ memory: "512m", ttl: "1h" });
  try {
    for (let turn = 0; turn < turns; turn++) {
      const message = await complete(messages, TOOLS);
      messages.push(message);
      if (!message.tool_calls?.length) return message.content;
      for (const one of message.tool_calls)
        messages.push({
          role: "tool",
          tool_call_id: one.id,
          content: await call(sandbox, one.function.name, one.function.arguments),
        });
    }
    return "[it found no end]";
  } finally {
    await sandbox.kill();
  }
}

// A model that says these, each a text or a tool's arguments; {last} is what the last tool answered.
export function scripted(...turns) {
  return async (messages) => {
    const turn = turns.shift();
    if (typeof turn === "string")
      return { role: "assistant", content: turn.replace("{last}", messages[messages.length - 1].content) };
    const asked = { name: "run_code", arguments: JSON.stringify(turn) };
    return { role: "assistant", content: null, tool_calls: [{ id: `call_${turns.length}`, type: "function", function: asked }] };
  };
}

if (process.argv[1] === new URL(import.meta.url).pathname)
  console.log(await answer("What is the sum?", scripted({ code: "x = 20" }, { code: 1 }, { code: "x + 22" }, "It is {last}.")));
