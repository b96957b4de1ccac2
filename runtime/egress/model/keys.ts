import type { ModelEndpoint } from './route.ts'

/** Parameters of the OpenAI API, and of servers that imitate it, which have no effect outside the answer. */
const OF_GENERATION = [
  ...['model', 'stream', 'stream_options', 'temperature', 'top_p', 'top_k', 'min_p', 'top_logprobs', 'seed'],
  ...['tools', 'tool_choice', 'parallel_tool_calls', 'reasoning', 'metadata', 'user', 'safety_identifier'],
  ...[
    'prompt_cache_key',
    'prompt_cache_retention',
    'service_tier',
    'store',
    'repetition_penalty',
    'thinking',
  ],
]

export const KEYS: Readonly<Record<ModelEndpoint, ReadonlySet<string>>> = {
  'POST /chat/completions': new Set([
    ...OF_GENERATION,
    ...[
      'messages',
      'max_tokens',
      'max_completion_tokens',
      'n',
      'stop',
      'logprobs',
      'logit_bias',
      'verbosity',
    ],
    ...[
      'frequency_penalty',
      'presence_penalty',
      'response_format',
      'reasoning_effort',
      'modalities',
      'audio',
    ],
    ...['function_call', 'functions', 'prediction', 'chat_template_kwargs'],
  ]),
  'POST /responses': new Set([
    ...OF_GENERATION,
    ...['input', 'instructions', 'max_output_tokens', 'max_tool_calls', 'text', 'truncation', 'include'],
  ]),
  'POST /embeddings': new Set(['model', 'input', 'dimensions', 'encoding_format', 'user']),
  'GET /models': new Set(),
}
