import { readFileSync } from 'node:fs'
import process from 'node:process'
import * as z from 'zod'
import { postComment } from './post-comment.ts'

const USAGE = 'Usage: node tools/pull-request-comment/main.ts <topic> <file.md>, in a workflow'

/** Environment variables that the workflow sets. */
const Env = z.object({
  GITHUB_API_URL: z.url(),
  GITHUB_REPOSITORY: z.string().regex(/^[A-Za-z0-9_.-]+\/[A-Za-z0-9_.-]+$/),
  GITHUB_TOKEN: z.string().min(1),
  PULL_REQUEST: z.coerce.number().int().positive(),
})

const [topic = '', file = ''] = process.argv.slice(2)
const env = Env.safeParse(process.env)
if (!/^[a-z][a-z-]*$/.test(topic) || file === '' || !env.success) {
  const missing = env.success
    ? []
    : env.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`)
  process.stderr.write(`${[USAGE, ...missing].join('\n')}\n`)
  process.exit(2)
}
const done = await postComment({
  apiUrl: env.data.GITHUB_API_URL,
  token: env.data.GITHUB_TOKEN,
  repository: env.data.GITHUB_REPOSITORY,
  pullRequest: env.data.PULL_REQUEST,
  topic,
  body: readFileSync(file, 'utf8'),
})
process.stdout.write(`${done}\n`)
