import { text } from 'node:stream/consumers'
import type { Command } from 'commander'
import * as z from 'zod'
import type { Me } from '../../contracts/api-keys.ts'
import type { OidcClient } from '../../contracts/sign-in.ts'
import { createClient } from '../../runtime/client/client.ts'
import { readSignInMethods } from '../../runtime/client/sign-in-methods.ts'
import { CliError, usageError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { readClientConfig } from '../service/client-config.ts'
import { type Login, loginCommandFor, loginFile, type SavedTokens, writeLogin } from '../service/logins.ts'
import { originOf, requireConfidential } from '../service/service-url.ts'
import { lockLogin } from '../sign-in/login-lock.ts'
import { signIn } from '../sign-in/sign-in.ts'
import { revokeTokens } from '../sign-in/sign-out.ts'
import { onInterrupt } from '../terminal/interrupts.ts'
import { askSecret } from '../terminal/prompt.ts'
import type { Terminal } from '../terminal/terminal.ts'
import { visible } from '../terminal/visible.ts'
import { type CliContext, newCommand, parseOptions } from './command.ts'

const LoginOptions = z.object({
  url: z.string(),
  key: z.boolean().default(false),
  device: z.boolean().default(false),
  browser: z.boolean().default(true),
  json: z.boolean().default(false),
})
type Asked = z.infer<typeof LoginOptions>

/** A bearer token as in RFC 6750, on one line. */
const KEY = /^[A-Za-z0-9._~+/-]{1,512}=*$/

export function loginCommand(context: CliContext): Command {
  const command = newCommand({
    usage: 'login',
    about:
      'Sign in to a service at a URL. The command opens the sign-in page of the issuer of the service in a browser. If the service accepts only API keys, or with --key, it asks for a key at the terminal. A key on standard input is used without a question. The tokens or the key are saved in a file that only you can read, and are sent to that URL only.',
    example:
      'agentweaver login --url https://agentweaver.example.com\nagentweaver login --url https://agentweaver.example.com --device\nagentweaver login --url https://agentweaver.example.com < key-file',
  })
    .requiredOption('--url <url>', 'the URL of the service: https, or http on this machine')
    .option('--device', 'sign in with a code on another device, where this machine has no browser')
    .option('--no-browser', 'print the address of the sign-in page, and open no browser')
    .option('--key', 'use an API key although the service has sign-in')
  command.action(async () => {
    const options = parseOptions(LoginOptions, command)
    if (options.key && options.device) throw usageError('--key and --device exclude each other.')
    const { terminal } = context
    const url = originOf({ value: options.url, from: '--url' })
    requireConfidential(url, terminal.io.env)
    const login = await obtainLogin(terminal, url, options)
    if (login === undefined) return context.exit(EXIT.interrupted)
    const me = await acceptedAs(login, { url, terminal })
    const { configDir } = readClientConfig({}, terminal.io)
    using _lock = await lockLogin(configDir, url)
    await writeLogin(configDir, url, login)
    report(terminal, { me, url, file: loginFile(configDir, url), isJson: options.json })
    context.exit(EXIT.ok)
  })
  return command
}

/** Undefined after Ctrl-C. */
async function obtainLogin(terminal: Terminal, url: string, asked: Asked): Promise<Login | undefined> {
  const given = terminal.isInteractive || asked.device ? '' : (await text(terminal.io.stdin)).trim()
  if (given !== '') return keyLogin(given)
  const { oidc } = asked.key ? {} : await readSignInMethods(url)
  if (oidc) return personLogin(terminal, { client: oidc, url, asked })
  if (asked.device) throw onlyKeys(url)
  if (!terminal.isInteractive)
    throw usageError(
      `No API key was given${asked.key ? '' : `, and ${url} has no other sign-in`}.`,
      'Type it at the terminal, or give a file with it: < FILE.',
    )
  const typed = await askSecret(terminal, `API key for ${url}: `)
  return typed === undefined ? undefined : keyLogin(typed.trim())
}

const onlyKeys = (url: string): CliError =>
  new CliError(`${url} accepts API keys only, and has no other sign-in.`, {
    status: EXIT.refused,
    hint: `Ask an operator for an API key, and use "${loginCommandFor(url)}".`,
  })

function keyLogin(apiKey: string): Login {
  if (apiKey === '')
    throw usageError('No API key was given.', 'Type it at the terminal, or give a file with it: < FILE.')
  if (!KEY.test(apiKey)) throw usageError('This is not an API key: a key is one word, as in awk_….')
  return { kind: 'key', apiKey }
}

type Person = { readonly client: OidcClient; readonly url: string; readonly asked: Asked }

async function personLogin(terminal: Terminal, { client, url, asked }: Person): Promise<Login | undefined> {
  if (asked.device && !client.deviceCode)
    throw new CliError(`The operator of ${url} does not allow sign-in with a device code.`, {
      status: EXIT.refused,
      hint: `Sign in with a browser on this machine: ${loginCommandFor(url)}`,
    })
  const interrupted = new AbortController()
  using _interrupts = onInterrupt(() => interrupted.abort())
  try {
    const { signal } = interrupted
    const options = { client, isDevice: asked.device, mayOpenBrowser: asked.browser, signal }
    return { kind: 'tokens', tokens: await signIn(terminal, options) }
  } catch (error) {
    if (interrupted.signal.aborted) return undefined
    throw error
  }
}

type At = { readonly url: string; readonly terminal: Terminal }

/** Asks the service before anything is saved. Tokens that it does not accept are revoked. */
async function acceptedAs(login: Login, { url, terminal }: At): Promise<Me> {
  if (login.kind === 'key') return createClient({ url, apiKey: login.apiKey }).readMe()
  return meWith(login.tokens, url).catch(async (error: unknown) => {
    await revokeTokens(login.tokens, terminal.io.env)
    throw error
  })
}

const meWith = ({ accessToken }: SavedTokens, url: string): Promise<Me> =>
  createClient({ url, apiKey: accessToken }).readMe()

type Report = { readonly me: Me; readonly url: string; readonly file: string; readonly isJson: boolean }

function report(terminal: Terminal, { me, url, file, isJson }: Report): void {
  const { owner, role, issuer } = me
  const who = `you are ${visible(owner)}, ${role}`
  const words =
    issuer === undefined
      ? `${url} accepts the key: ${who}. It is saved in ${file}.`
      : `You are signed in to ${url}: ${who}. The tokens are saved in ${file}.`
  if (isJson) terminal.json({ url, file, owner, role, ...(issuer !== undefined && { issuer }) })
  else terminal.print(words)
}
