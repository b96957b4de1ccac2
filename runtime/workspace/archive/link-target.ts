/**
 * Returns whether a relative link can never lead out of the root. `depth` is the number of folders between the
 * root and the link. `..` is allowed only at the start: later it could follow another link and climb from its
 * target.
 */
export function staysInside(target: string, depth: number): boolean {
  if (target === '' || target.includes('\0') || /^[\\/]|^[A-Za-z]:/.test(target)) return false
  const steps = target.split('/').filter((step) => step !== '' && step !== '.')
  const names = steps.findIndex((step) => step !== '..')
  const climbs = names < 0 ? steps.length : names
  return climbs <= depth && !steps.slice(climbs).some((step) => step.split('\\').includes('..'))
}
