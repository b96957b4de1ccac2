import { SandboxError } from '../kit/errors.ts'

/**
 * A workspace path as the end of a URL. Segments that a URL parser would resolve are refused here: they would
 * turn the request into one for another route.
 */
export function toUrlPath(path: string): string {
  const segments = path.split('/')
  if (segments.some((segment) => segment === '.' || segment === '..' || segment === '')) {
    throw new SandboxError('invalid_path', `${JSON.stringify(path)} must be a plain path in the workspace`)
  }
  return segments.map(encodeURIComponent).join('/')
}
