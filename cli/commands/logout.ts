import type { Command } from 'commander'
import * as z from 'zod'
import { EXIT } from '../exit-status.ts'
import { readClientConfig } from '../service/client-config.ts'
import { originOf } from '../service/service-url.ts'
import { type SignedOut, signOut } from '../sign-in/sign-out.ts'
import { type CliContext, newCommand, parseOptions } from './command.ts'

const LogoutOptions = z.object({ url: z.string(), json: z.boolean().default(false) })

export function logoutCommand(context: CliContext): Command {
  const command = newCommand({
    usage: 'logout',
    about:
      'Sign out of a service at a URL: revoke the refresh token at the issuer, and delete the saved tokens. A saved API key is deleted, and stays valid.',
    example: 'agentweaver logout --url https://agentweaver.example.com',
  }).requiredOption('--url <url>', 'the URL of the service, as in "agentweaver login"')
  command.action(async () => {
    const { url: given, json } = parseOptions(LogoutOptions, command)
    const { terminal } = context
    const { io } = terminal
    const url = originOf({ value: given, from: '--url' })
    const { configDir } = readClientConfig({}, io)
    const how = await signOut({ configDir, origin: url, env: io.env })
    const isTokens = how === 'revoked' || how === 'kept'
    if (json)
      terminal.json({ url, removed: how !== 'nothing', ...(isTokens && { revoked: how === 'revoked' }) })
    else terminal.print(WORDS[how](url))
    context.exit(EXIT.ok)
  })
  return command
}

const WORDS: Readonly<Record<SignedOut, (url: string) => string>> = {
  nothing: (url) => `There is no login for ${url}.`,
  key: (url) => `The saved key for ${url} is deleted.`,
  revoked: (url) =>
    `You are signed out of ${url}: the issuer revoked the refresh token, and the tokens are deleted here. An access token stays valid until it expires.`,
  kept: (url) =>
    `The tokens for ${url} are deleted here. They were not revoked at the issuer, because it cannot be reached, or does not offer that.`,
}
