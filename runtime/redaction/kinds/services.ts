import type { TextReader } from '../text-reader.ts'
import { CharClass } from '../text-reader.ts'
import { endOfToken, parseFormats, type TokenFormat } from './token-format.ts'
import { looksRandom } from './values.ts'

const UUID = '{x:8}-{x:4}-{x:4}-{x:4}-{x:12}'

/**
 * Services whose keys have no prefix: the service's name, then the formats of its keys. Names are compared in
 * lower case and without separators.
 */
const SERVICES = `
  adafruit {s:32}
  adobe {x:32}
  airtable {a:17}
  algolia {a:32}
  alibaba {a:30}
  asana {d:16} {a:32}
  atlassian|confluence|jira {a:24}
  beamer b_{t:44}
  bitbucket {a:32} {t:64}
  bittrex {a:32}
  cloudflare {s:40} {x:37}
  codecov {a:32}
  cohere|coapikey {a:40}
  coinbase {s:64}
  confluent {a:16} {a:64}
  contentful {t:43}
  datadog {a:40} {x:32}
  discord {x:64} {d:18} {t:32}
  droneci {a:32}
  dropbox {a:15} {a:11}AAAAAAAAAA{t:43}
  etsy {a:24}
  facebook {x:32}
  fastly {t:32}
  finicity {x:32} {a:20}
  finnhub {a:20}
  flickr {a:32}
  freshbooks {a:64}
  gitter {s:40}
  gocardless live_{t:40}
  heroku|hubspot|squarespace|snyk ${UUID}
  intercom {t:60}
  jfrog|artifactory|bintray|xray {a:73} {a:64}
  kraken {p:80-90}
  kucoin {x:24} ${UUID}
  launchdarkly {t:40}
  linear {x:32}
  linkedin {a:14} {a:16}
  lob (live|test)_{x:35} (live|test)_pub_{x:31}
  looker {a:20} {a:24}
  mailgun (key|pubkey)-{x:32} {a:32}-{a:8}-{a:8}
  mattermost {a:26}
  meraki {x:40}
  messagebird {a:25} ${UUID}
  netlify {t:40-46}
  newrelic {a:64}
  nytimes|newyorktimes {t:32}
  okta 00{t:40}
  plaid {a:24} {a:30}
  privateai {a:32}
  rapidapi {s:50}
  sendbird {x:40} ${UUID}
  sentry {x:64}
  sonar {t:40}
  sourcegraph {x:40}
  sumo su{a:12} {a:64}
  travis {a:22}
  twitch {a:30}
  twitter {a:25} {a:45} {a:50} {d:15-25}-{a:20-40} AAAAAAAAAAAAAAAAAAAAAA{p:80-100}
  yandex YC{s:38}
  zendesk {a:40}
`

const FORMATS = new Map<string, readonly TokenFormat[]>(
  SERVICES.trim()
    .split('\n')
    .flatMap((line) => {
      const [names = '', ...formats] = line.trim().split(' ')
      const parsed = parseFormats(formats.join(' '))
      return names.split('|').map((name) => [name, parsed] as const)
    }),
)

const NAMES = [...FORMATS.keys()].join('|')
const ANY_NAME = new RegExp(NAMES, 'g')
/** The same names, with an optional separator in names of two words. */
const MAYBE_NAMED = new RegExp(
  NAMES.replace(/(message|new|new-?york|private|co)(?=bird|relic|york|times|ai|api)/g, '$1[^a-z]?'),
  'i',
)

/** Names of digests and versions. Their values are kept, for every service. */
const DIGEST = /sha\d*|hash|digest|checksum|integrity|commit|revision|etag|fingerprint|version|image|\bref\b/i

/** Returns the key formats of all services named in a text. */
export function formatsNamedIn(text: string): readonly TokenFormat[] {
  if (!MAYBE_NAMED.test(text) || DIGEST.test(text)) return []
  const names = text
    .toLowerCase()
    .replace(/[^a-z]/g, '')
    .match(ANY_NAME)
  return (names ?? []).flatMap((name) => FORMATS.get(name) ?? [])
}

const IN_KEY = new CharClass(/[A-Za-z0-9_=.-]/)

/** Returns the end of a key that begins at `from` in one of these formats. */
export function endOfServiceKey(
  reader: TextReader,
  from: number,
  formats: readonly TokenFormat[],
): number | undefined {
  for (const format of formats) {
    if (!reader.has(format.prefix, from)) continue
    const end = endOfToken(reader, from, format)?.end
    if (end === undefined || IN_KEY.has(reader.at(end))) continue
    const key = reader.slice(from, end)
    if (/^\d+$/.test(key) || looksRandom(key)) return end
  }
  return undefined
}
