import { readFileSync } from 'node:fs'

/** The program of the relay, which the executor writes into a sandbox. A bundle embeds it (`tools/bundle.ts`). */
export const relayProgram = (): { readonly text: string; readonly extension: string } => ({
  text: readFileSync(new URL('../../egress-relay/relay.ts', import.meta.url), 'utf8'),
  extension: '.mts',
})
