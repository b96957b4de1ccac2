import * as z from 'zod'
import { CredentialId } from '../../../contracts/egress.ts'
import { RunPhase } from '../../../contracts/policy.ts'
import { MaxSentMiB, Port, Range, Why } from './fields.ts'
import { hostFault } from './host.ts'
import type { Requests as RequestsSchema } from './requests.ts'

type Requests = z.infer<typeof RequestsSchema>

/** A path without `.git` at its end: servers accept both. */
const Repository = z
  .string()
  .max(200)
  .regex(/^[A-Za-z0-9_][A-Za-z0-9._-]*(?:\/[A-Za-z0-9_][A-Za-z0-9._-]*)*$/, 'must be a path such as team/app')
  .refine((path) => !path.endsWith('.git'), 'must not end in .git')

const Common = {
  /** read-only: clone and fetch. full: push too, to branches of the run. */
  mode: z.enum(['read-only', 'full']),
  repositories: z.array(Repository).min(1).max(16),
  credential: CredentialId.optional(),
  phases: z.array(RunPhase).min(1).optional(),
  maxSentMiB: MaxSentMiB.optional(),
  why: Why,
}

/** Repositories of a git server. */
export const GitEntry = z.strictObject({
  preset: z.literal('git'),
  host: z.string().superRefine((host, context) => {
    const fault = host.startsWith('*') ? 'must name one host' : hostFault(host)
    if (fault !== undefined) context.addIssue({ code: 'custom', message: fault })
  }),
  ports: z.array(Port).min(1).max(8).default([443]),
  addresses: z.array(Range).min(1).max(16).optional(),
  ...Common,
})

/** Repositories of GitHub, with a part of its REST API. */
export const GitHubEntry = z.strictObject({
  preset: z.literal('github'),
  addresses: z.array(Range).min(1).max(16).optional(),
  ...Common,
})

type Written = z.infer<typeof GitEntry> | z.infer<typeof GitHubEntry>

/** The requests of git's smart protocol. Without credential helpers and LFS, git sends no others. */
function gitRequests({ mode, repositories }: Pick<Written, 'mode' | 'repositories'>): Requests {
  const at = (end: string) => repositories.flatMap((path) => [`/${path}${end}`, `/${path}.git${end}`])
  const services = mode === 'full' ? ['/git-upload-pack', '/git-receive-pack'] : ['/git-upload-pack']
  return [
    { methods: ['GET'], paths: at('/info/refs') },
    { methods: ['POST'], paths: services.flatMap(at) },
  ]
}

/**
 * Paths of the REST API below a repository. Left out is what could lead out of the repository or change how it is
 * protected: contents and git data, keys, hooks, secrets, and everything outside the repository, such as gists, `/user`
 * and `/graphql`.
 */
const GITHUB_READING = [
  ...['', '/branches', '/branches/*', '/commits', '/commits/*', '/commits/*/check-runs', '/commits/*/status'],
  ...['/compare/*', '/issues', '/issues/*', '/issues/*/comments', '/labels', '/languages'],
  ...['/pulls', '/pulls/*', '/pulls/*/comments', '/pulls/*/commits', '/pulls/*/files', '/pulls/*/reviews'],
]
const GITHUB_WRITING = ['/issues/*/comments', '/pulls', '/pulls/*/comments']

function gitHubRequests({ mode, repositories }: z.infer<typeof GitHubEntry>): Requests {
  const at = (ends: readonly string[]) =>
    repositories.flatMap((path) => ends.map((end) => `/repos/${path}${end}`))
  const reading: Requests = [{ methods: ['GET', 'HEAD'], paths: at(GITHUB_READING) }]
  return mode === 'full' ? [...reading, { methods: ['POST'], paths: at(GITHUB_WRITING) }] : reading
}

/** The destinations for which an entry stands. */
export function expandGit(entry: Written) {
  const { preset: _preset, repositories: _repositories, ...rest } = entry
  const git = { ...rest, mode: 'full' as const, requests: gitRequests(entry) }
  if (entry.preset === 'git')
    return [{ ...git, host: entry.host, ports: entry.ports, accepts: 'git' as const }]
  const gitHub = { ...git, ports: [443], accepts: 'github' as const }
  return [
    { ...gitHub, host: 'github.com' },
    { ...gitHub, host: 'api.github.com', requests: gitHubRequests(entry) },
  ]
}
