import * as z from 'zod'

export interface CommentRequest {
  /** `https://api.github.com`, or the URL of a GitHub Enterprise server. */
  readonly apiUrl: string
  readonly token: string
  /** `<owner>/<name>`. */
  readonly repository: string
  readonly pullRequest: number
  /** The topic of the comment: a later comment with the same topic replaces it. */
  readonly topic: string
  readonly body: string
}

/** GitHub allows 65,536 characters; the rest is for the mark and the last line. */
const MAX_CHARACTERS = 64_000
const CUT = '\n\n… cut here: the whole page is in the summary of the workflow run.'
const PER_PAGE = 100
/** Limit of the search: none of our pull requests has more comments. */
const MAX_PAGES = 30
const TIMEOUT_MS = 30_000

const Comments = z.array(
  z.object({ id: z.int(), body: z.string().nullish(), user: z.object({ type: z.string() }).nullish() }),
)

/** Creates the comment for a topic, or updates the existing one. Only a bot's own comment is ever changed. */
export async function postComment(request: CommentRequest): Promise<'created' | 'updated'> {
  const mark = `<!-- agentweaver:${request.topic} -->`
  const { body } = request
  const text = body.length > MAX_CHARACTERS ? `${body.slice(0, MAX_CHARACTERS)}${CUT}` : body
  const found = await findComment(request, mark)
  const path = found === undefined ? `issues/${request.pullRequest}/comments` : `issues/comments/${found}`
  await call(request, {
    method: found === undefined ? 'POST' : 'PATCH',
    path,
    body: { body: `${mark}\n${text}` },
  })
  return found === undefined ? 'created' : 'updated'
}

async function findComment(request: CommentRequest, mark: string): Promise<number | undefined> {
  for (let page = 1; page <= MAX_PAGES; page += 1) {
    const path = `issues/${request.pullRequest}/comments?per_page=${PER_PAGE}&page=${page}`
    const comments = Comments.parse(await call(request, { method: 'GET', path }))
    const own = comments.find(({ body, user }) => user?.type === 'Bot' && body?.startsWith(mark))
    if (own) return own.id
    if (comments.length < PER_PAGE) return undefined
  }
  return undefined
}

interface Call {
  readonly method: 'GET' | 'POST' | 'PATCH'
  readonly path: string
  readonly body?: unknown
}

async function call(
  { apiUrl, token, repository }: CommentRequest,
  { method, path, body }: Call,
): Promise<unknown> {
  const answer = await fetch(`${apiUrl}/repos/${repository}/${path}`, {
    method,
    headers: {
      accept: 'application/vnd.github+json',
      authorization: `Bearer ${token}`,
      'x-github-api-version': '2022-11-28',
    },
    redirect: 'error',
    signal: AbortSignal.timeout(TIMEOUT_MS),
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  if (!answer.ok) throw new Error(`GitHub answered ${answer.status} to ${method} ${path}`)
  return answer.json()
}
