/**
 * Creates the keys of a deployment in a folder: `npm run keys -- FOLDER`. Prints the public half, which belongs in the
 * section `keys` of the environment's file; the files belong in the vault, or the Secret, of the deployment.
 */
import { createPublicKey, generateKeyPairSync, randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { API_KEY_FILE } from '../contracts/api-env.ts'
import { generateApiKey } from '../runtime/api/http/api-key.ts'
import { KEY_FILES, publicJwk } from '../runtime/api/keys/deployment-keys.ts'
import { messageOf } from '../runtime/kit/errors.ts'

/** Writes new keys, never replaces existing ones, and returns the key set that verifies tickets. */
export async function makeKeys(folder: string) {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const { privateKey } = generateKeyPairSync('ed25519')
  const files = {
    [KEY_FILES.deploymentKey]: randomBytes(32).toString('base64'),
    [KEY_FILES.ticketKey]: privateKey.export({ type: 'pkcs8', format: 'der' }).toString('base64'),
    [API_KEY_FILE]: generateApiKey(),
  }
  for (const [name, text] of Object.entries(files))
    await writeFile(join(folder, name), text, { flag: 'wx', mode: 0o600 })
  return { files, jwks: { keys: [await publicJwk(createPublicKey(privateKey))] } }
}

const HELP = `Usage: npm run keys -- FOLDER

Makes the keys of a deployment in FOLDER, which is created if it is not there:
  ${KEY_FILES.deploymentKey}  32 random bytes, from which bearers and seals are derived
  ${KEY_FILES.ticketKey}      the private key that signs the tickets of sandboxes
  ${API_KEY_FILE}         the first API key, for the first operator
Prints the public half, which goes into the section "keys" of environments/NAME.json. Keys that are there are never
replaced. How a deployment gets the files, and how keys are rotated: docs/deployment.md
`

const EXIT_USAGE = 2

function refuse(message: string): never {
  process.stderr.write(`error: ${message}\n`)
  process.exit(EXIT_USAGE)
}

/** The folder that was named; help and mistakes end the program. */
function folderArgument(): string {
  try {
    const { values, positionals } = parseArgs({
      options: { help: { type: 'boolean', short: 'h' } },
      allowPositionals: true,
    })
    if (values.help) {
      process.stdout.write(HELP)
      process.exit(0)
    }
    const [folder, ...more] = positionals
    if (folder !== undefined && more.length === 0) return folder
    return refuse(`name one folder for the keys.\n\n${HELP}`)
  } catch (error) {
    return refuse(`${messageOf(error)}\n\n${HELP}`)
  }
}

/** Keys from two runs do not belong together, so no key is added to a folder that already has keys. */
function refuseExisting(folder: string): void {
  const found = [...Object.values(KEY_FILES), API_KEY_FILE].filter((name) => existsSync(join(folder, name)))
  if (found.length === 0) return
  refuse(
    `${folder} has keys already: ${found.join(', ')}. They stay as they are.\n` +
      'Use them, or name another folder for the keys of another deployment. To replace keys that are in use: docs/deployment.md',
  )
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folder = folderArgument()
  refuseExisting(folder)
  const { jwks } = await makeKeys(folder)
  process.stdout.write(`${JSON.stringify({ jwks }, null, 2)}\n`)
  process.stderr.write(
    `The first operator logs in with: agentweaver login --url https://api.ZONE < ${join(folder, API_KEY_FILE)}\n`,
  )
}
