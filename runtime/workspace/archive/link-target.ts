/**
 * Whether a relative link, whose own folder lies `depth` real folders below the root, can never lead out of the
 * root. `..` is permitted at the start only: further in it could follow another link and climb from there.
 */
export function staysInside(target: string, depth: number): boolean {
  if (target === '' || target.includes('\0') || /^[\\/]|^[A-Za-z]:/.test(target)) return false
  const steps = target.split('/').filter((step) => step !== '' && step !== '.')
  const names = steps.findIndex((step) => step !== '..')
  const climbs = names < 0 ? steps.length : names
  return climbs <= depth && !steps.slice(climbs).some((step) => step.split('\\').includes('..'))
}
