import { text } from 'node:stream/consumers'
import type { Command } from 'commander'
import * as z from 'zod'
import { createClient } from '../../runtime/client/client.ts'
import { usageError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { readClientConfig } from '../service/client-config.ts'
import { loginFile, writeLogin } from '../service/logins.ts'
import { originOf, requireConfidential } from '../service/service-url.ts'
import { askSecret } from '../terminal/prompt.ts'
import type { Terminal } from '../terminal/terminal.ts'
import { visible } from '../terminal/visible.ts'
import { type CliContext, newCommand, parseOptions } from './command.ts'

export const LoginOptions = z.object({ url: z.string(), json: z.boolean().default(false) })

/** A bearer token as in RFC 6750, on one line. */
const KEY = /^[A-Za-z0-9._~+/-]{1,512}=*$/

export function loginCommand(context: CliContext): Command {
  const command = newCommand({
    usage: 'login',
    about:
      'Save the API key for a service at a URL. The command asks for the key at the terminal, or reads it from standard input. It saves the key in a file that only you can read, and sends it to that URL only.',
    example:
      'agentweaver login --url https://agentweaver.example.com\nagentweaver login --url https://agentweaver.example.com < key-file',
  }).requiredOption('--url <url>', 'the URL of the service: https, or http on this machine')
  command.action(async () => {
    const { url: given, json } = parseOptions(LoginOptions, command)
    const { terminal } = context
    const url = originOf({ value: given, from: '--url' })
    requireConfidential(url, terminal.io.env)
    const apiKey = await readKey(terminal, url)
    if (apiKey === undefined) return context.exit(EXIT.interrupted)
    if (apiKey === '')
      throw usageError('No API key was given.', 'Type it at the terminal, or give a file with it: < FILE.')
    if (!KEY.test(apiKey)) throw usageError('This is not an API key: a key is one word, as in awk_….')
    // Rejects a key that the service does not accept before it is saved.
    const { owner, role } = await createClient({ url, apiKey }).readMe()
    const { configDir } = readClientConfig({}, terminal.io)
    await writeLogin(configDir, url, apiKey)
    const file = loginFile(configDir, url)
    if (json) terminal.json({ url, file, owner, role })
    else terminal.print(`${url} accepts the key: you are ${visible(owner)}, ${role}. It is saved in ${file}.`)
    context.exit(EXIT.ok)
  })
  return command
}

async function readKey(terminal: Terminal, url: string): Promise<string | undefined> {
  if (terminal.isInteractive) return (await askSecret(terminal, `API key for ${url}: `))?.trim()
  return (await text(terminal.io.stdin)).trim()
}
