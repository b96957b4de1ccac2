/**
 * Makes the keys of a deployment in a folder: `npm run keys -- FOLDER`. Prints the public half, which goes into the
 * section `keys` of the environment's file; the files go into the vault, or the Secret, of the deployment.
 */
import { createPublicKey, generateKeyPairSync, randomBytes } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { API_KEY_FILE } from '../contracts/api-env.ts'
import { generateApiKey } from '../runtime/api/http/api-key.ts'
import { KEY_FILES, publicJwk } from '../runtime/api/keys/deployment-keys.ts'

/** Writes new keys, never over others, and answers the key set that verifies tickets. */
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

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [, , folder] = process.argv
  if (folder === undefined) {
    process.stderr.write('npm run keys -- FOLDER: which folder?\n')
    process.exit(2)
  }
  const { jwks } = await makeKeys(folder)
  process.stdout.write(`${JSON.stringify({ jwks }, null, 2)}\n`)
  process.stderr.write(
    `The first operator logs in with: agentweaver login --url https://api.ZONE < ${join(folder, API_KEY_FILE)}\n`,
  )
}
