import { CLAIM } from '../../contracts/claim.ts'
import type { Check } from './checked-tree.ts'

const GROUPS = [CLAIM.group, CLAIM.group.replace(/^extensions\./, '')]

/** The whole tree must use one version of the claim API, including text in policies and roles. */
export const claimVersion: Check = ({ objects }) => {
  const other = new RegExp(
    `(?:${GROUPS.map((group) => group.replaceAll('.', '\\.')).join('|')})/(?!${CLAIM.version}\\b)v\\d\\w*`,
  )
  return objects.flatMap(({ path, object }) => {
    const found = other.exec(JSON.stringify(object))
    if (!found) return []
    return [{ path, message: `${found[0]} is not version ${CLAIM.version}`, open: 'contracts/claim.ts' }]
  })
}
