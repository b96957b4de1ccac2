import { rmSync } from 'node:fs'
import { join } from 'node:path'
import * as z from 'zod'
import { OidcClient } from '../../contracts/sign-in.ts'
import { preparePrivateFolder } from '../../runtime/state-folder/prepare-folder.ts'
import { Distrust, openPrivateFolder } from '../../runtime/state-folder/private-folder.ts'
import { replaceFile } from '../../runtime/state-folder/replace-file.ts'
import { CliError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'

/** The tokens of a signed-in person, and the client of the issuer that renews them. */
export const SavedTokens = z.object({
  client: OidcClient,
  accessToken: z.string().min(1),
  /** Absent if the issuer did not tell. */
  expiresAt: z.iso.datetime().optional(),
  /** Absent if the issuer gave none. Then the sign-in ends with the access token. */
  refreshToken: z.string().min(1).optional(),
})
export type SavedTokens = z.infer<typeof SavedTokens>

export type Login =
  | { readonly kind: 'key'; readonly apiKey: string }
  | { readonly kind: 'tokens'; readonly tokens: SavedTokens }

/** One file per service, named by its origin, so that two concurrent logins cannot overwrite each other's credential. */
const fileName = (origin: string): string => encodeURIComponent(origin)

const folderOf = (configDir: string): string => join(configDir, 'logins')

export const loginFile = (configDir: string, origin: string): string =>
  join(folderOf(configDir), fileName(origin))

export const loginCommandFor = (origin: string): string => `agentweaver login --url ${origin}`

export function readLogin(configDir: string, origin: string): Login | undefined {
  try {
    using folder = openPrivateFolder(folderOf(configDir))
    const text = folder?.readFile(fileName(origin))?.trim()
    return text === undefined ? undefined : parseLogin(text, loginFile(configDir, origin))
  } catch (error) {
    if (!(error instanceof Distrust)) throw error
    throw new CliError(error.message, {
      status: EXIT.refused,
      hint: `Remove it and log in again: ${loginCommandFor(origin)}`,
      cause: error,
    })
  }
}

/** A key is one word. Tokens are JSON. */
function parseLogin(text: string, path: string): Login {
  if (!text.startsWith('{')) return { kind: 'key', apiKey: text }
  const parsed = SavedTokens.safeParse(jsonOf(text))
  if (parsed.success) return { kind: 'tokens', tokens: parsed.data }
  throw new Distrust('it does not contain a login of this version', { path })
}

/** Undefined for other text. The error of the parser would repeat a part of it, which is secret. */
function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

/** Saves an API key or tokens in a file that only the user can read. */
export async function writeLogin(configDir: string, origin: string, login: Login): Promise<void> {
  await preparePrivateFolder(folderOf(configDir))
  const text = login.kind === 'key' ? login.apiKey : JSON.stringify(login.tokens)
  await replaceFile(loginFile(configDir, origin), `${text}\n`)
}

/** Deletes the saved credential of a service. */
export function removeLogin(configDir: string, origin: string): void {
  rmSync(loginFile(configDir, origin), { force: true })
}
