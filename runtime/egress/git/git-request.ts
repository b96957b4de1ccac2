import type { PushFault } from './push-list.ts'

const RECEIVE_PACK = '/git-receive-pack'
const INFO_REFS = '/info/refs'
const READING = new Set(['GET', 'HEAD'])
const SERVICES = new Set(['service=git-upload-pack', 'service=git-receive-pack'])

const CLONE_AGAIN = 'Use git over https with an unmodified configuration.'

const splitPath = (target: string) => {
  const at = target.indexOf('?')
  return at < 0 ? { path: target } : { path: target.slice(0, at), query: target.slice(at + 1) }
}

/** Whether the body of a request may be a push. Some servers ignore letter case and what follows. */
export const isPush = (method: string, target: string): boolean =>
  !READING.has(method) && splitPath(target).path.toLowerCase().includes(RECEIVE_PACK)

/** Returns why a request of git is not forwarded, or undefined. */
export function gitRequestFault(method: string, target: string): PushFault | undefined {
  const { path, query } = splitPath(target)
  if (/\/info\/lfs(?:\/|$)/.test(path))
    return {
      reason: 'Git LFS is not supported, because its objects travel to other hosts',
      remedy: 'Clone with GIT_LFS_SKIP_SMUDGE=1, and push with GIT_LFS_SKIP_PUSH=1.',
    }
  if (path.endsWith(INFO_REFS) && !SERVICES.has(query ?? ''))
    return { reason: "only git's smart protocol is supported", remedy: CLONE_AGAIN }
  if (/\/git-(?:upload|receive)-pack$/.test(path) && (method !== 'POST' || query !== undefined))
    return { reason: 'the request is not one that git sends', remedy: CLONE_AGAIN }
  return undefined
}

/** Returns why the body of a push cannot be judged, or undefined. */
export function pushEncodingFault(headers: NodeJS.Dict<string | string[]>): PushFault | undefined {
  const { 'content-encoding': encoding, 'content-type': type, 'git-protocol': protocol } = headers
  if (encoding !== undefined && encoding !== 'identity')
    return { reason: `the push is encoded with ${shown(encoding)}`, remedy: CLONE_AGAIN }
  if (type !== 'application/x-git-receive-pack-request')
    return { reason: `the push has the content type ${shown(type)}`, remedy: CLONE_AGAIN }
  if (protocol !== undefined && protocol !== 'version=0' && protocol !== 'version=1')
    return {
      reason: `the push uses the protocol ${shown(protocol)}`,
      remedy: 'Use git -c protocol.version=0 push.',
    }
  return undefined
}

const shown = (value: string | string[] | undefined) => JSON.stringify(String(value ?? '').slice(0, 60))
