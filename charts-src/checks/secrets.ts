import type { Check } from './checked-tree.ts'
import { recordAt } from './read-fields.ts'

/** Formats of credentials. Public keys match none of them. */
const CREDENTIAL =
  /-----BEGIN [A-Z ]*PRIVATE KEY-----|"d"\s*:\s*"[\w-]{43}"|\bgh[pousr]_\w{36}|\/\/[^/\s:@]+:[^/\s@]+@/

/**
 * Rejects Secrets with data and text that contains a credential: every reader of the repository sees the
 * tree.
 */
export const secrets: Check = ({ objects }) =>
  objects.flatMap(({ path, object }) => {
    const isSecret = object.kind === 'Secret'
    const data = { ...recordAt(object, 'data'), ...recordAt(object, 'stringData') }
    const open = 'charts-src/apps/'
    return [
      ...(isSecret && Object.keys(data).length > 0
        ? [
            {
              path,
              message: `Secret ${object.metadata.name} has data: name a vault's secret in its place`,
              open,
            },
          ]
        : []),
      ...(CREDENTIAL.test(JSON.stringify(object).replaceAll('\\"', '"'))
        ? [{ path, message: 'holds a credential: take it out, and rotate it', open }]
        : []),
    ]
  })
