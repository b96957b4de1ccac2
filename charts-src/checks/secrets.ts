import type { Check } from './checked-tree.ts'
import { recordAt } from './read-fields.ts'

/** A credential in a text has one of these forms; a public key has none of them. */
const CREDENTIAL =
  /-----BEGIN [A-Z ]*PRIVATE KEY-----|"d"\s*:\s*"[\w-]{43}"|\bgh[pousr]_\w{36}|\/\/[^/\s:@]+:[^/\s@]+@/

/** No Secret with data, and no text that holds a credential: the tree is read by everybody who reads the repository. */
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
