/**
 * A chat that ends in the call of one tool. The model is too small to call one by itself: llama-server is shown three
 * earlier turns and its grammar does the rest, vLLM is given the only text that it may write.
 */
import { modelName, type Engine } from './engine.ts';

/** What a small model would write there differs between builds and CPUs; the grammar is made of this. */
const city = { type: 'string', enum: ['Paris'] };
const tools = [
  {
    type: 'function' as const,
    function: {
      name: 'get_weather',
      description: 'Get the weather of a city',
      parameters: { type: 'object', properties: { city }, required: ['city'] },
    },
  },
];

const question = (name: string) => ({ role: 'user' as const, content: `What is the weather in ${name}?` });

const shownTurns = Object.entries({ London: 'rain', Rome: 'sun', Oslo: 'snow' }).flatMap(([name, weather], index) => [
  question(name),
  {
    role: 'assistant' as const,
    content: '',
    tool_calls: [
      {
        id: `call_${index}`,
        type: 'function' as const,
        function: { name: 'get_weather', arguments: JSON.stringify({ city: name }) },
      },
    ],
  },
  { role: 'tool' as const, tool_call_id: `call_${index}`, content: weather },
  { role: 'assistant' as const, content: `It is ${weather} in ${name}.` },
]);

const forcedCall = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>';

/** The body without `stream`. */
export function toolCallAsk(kind: Engine['kind']) {
  const common = { model: modelName, tools, max_tokens: 80, temperature: 0 };
  return kind === 'llama-server'
    ? {
        ...common,
        messages: [...shownTurns, question('Paris')],
        tool_choice: 'required' as const,
        // On some CPUs a cached prompt is continued another way, with blanks up to the last token.
        cache_prompt: false,
      }
    : {
        ...common,
        messages: [question('Paris')],
        chat_template_kwargs: { enable_thinking: false },
        structured_outputs: { choice: [forcedCall] },
      };
}
