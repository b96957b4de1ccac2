/**
 * Secret formats that the rules of gitleaks 8.30.1 (`g`) and secretlint 13 (`s`) detect, as published by their
 * issuers: name, lists that contain it, and format. A run is `{alphabet:length}`: d digits, x and X lower-case
 * and upper-case hex digits, l lower-case letters and digits, u upper-case letters and digits, p letters, a
 * letters and digits, w the same and `_`, s the same and `-`, b base64.
 */
export const ALONE = table(`
1password-secret-key g A3-{u:6}-{u:11}-{u:5}-{u:5}-{u:5}
1password-service-account gs ops_eyJ{b:300}fQ
adobe-client-secret g p8e-{l:32}
age-secret-key g AGE-SECRET-KEY-1{u:58}
agentweaver-api-key - awk_{s:43}
airtable-personal-access-token g pat{a:14}.{x:64}
alibaba-access-key-id g LTAI{l:20}
anthropic-admin-api-key g sk-ant-admin01-{s:93}AA
anthropic-api-key gs sk-ant-api03-{s:93}AA
artifactory-api-key g AKCp{a:69}
artifactory-reference-token g cmVmd{a:59}
atlassian-api-token g ATATT3{s:186}
authress-access-key g sc_{l:12}.{l:5}.acc_{l:16}.{l:40}
aws-access-key-id gs AKIA{u:16}
aws-temporary-key-id g ASIA{u:16}
aws-bedrock-long-lived g ABSK{b:110}
aws-bedrock-short-lived g bedrock-api-key-{b:100}
azure-client-secret gs {a:3}8Q~{a:34}
clickhouse-cloud-key g 4b1d{a:38}
clojars-api-token g CLOJARS_{l:60}
cloudflare-account-token s cfat_{a:40}{x:8}
cloudflare-global-key s cfk_{a:40}{x:8}
cloudflare-user-token s cfut_{a:40}{x:8}
cloudflare-origin-ca-key g v1.0-{x:24}-{x:146}
databricks-api-token gs dapi{x:32}
defined-networking-token g dnkey-{l:26}-{l:52}
digitalocean-access-token g doo_v1_{x:64}
digitalocean-personal-token g dop_v1_{x:64}
digitalocean-refresh-token g dor_v1_{x:64}
docker-personal-token s dckr_pat_{s:27}
doppler-api-token g dp.pt.{a:43}
dropbox-short-lived-token g sl.{s:135}
duffel-api-token g duffel_test_{s:43}
dynatrace-api-token g dt0c01.{u:24}.{u:64}
easypost-api-token g EZAK{a:54}
easypost-test-token g EZTK{a:54}
facebook-access-token g {d:15}|{s:27}
facebook-page-token g EAAM{a:120}
figma-token s figd_{s:40}
flutterwave-encryption-key g FLWSECK_TEST-{x:12}
flutterwave-public-key g FLWPUBK_TEST-{x:32}-X
flutterwave-secret-key g FLWSECK_TEST-{x:32}-X
flyio-access-token g fo1_{s:43}
flyio-macaroon g fm2_{b:120}
frameio-api-token g fio-u-{s:64}
gcp-api-key g AIza{s:35}
github-app-token gs ghu_{a:36}
github-server-token gs ghs_{a:36}
github-installation-token s ghs_{d:8}_{s:40}.{s:200}.{s:43}
github-fine-grained-token gs github_pat_{w:82}
github-oauth-token gs gho_{a:36}
github-personal-token gs ghp_{a:36}
github-refresh-token gs ghr_{a:36}
gitlab-ci-job-token g glcbt-{a:2}_{s:20}
gitlab-deploy-token g gldt-{s:20}
gitlab-feature-flag-token g glffct-{s:20}
gitlab-feed-token g glft-{s:20}
gitlab-incoming-mail-token g glimt-{s:25}
gitlab-agent-token g glagent-{s:50}
gitlab-oauth-secret g gloas-{s:64}
gitlab-personal-token gs glpat-{s:20}
gitlab-personal-token-routable g glpat-{s:30}.{l:2}{l:7}
gitlab-trigger-token g glptt-{x:40}
gitlab-runner-registration-token g GR1348941{s:20}
gitlab-runner-token g glrt-{s:20}
gitlab-runner-token-routable g glrt-t1_{s:30}.{l:2}{l:7}
gitlab-scim-token g glsoat-{s:20}
gitlab-session-cookie g _gitlab_session={l:32}
grafana-api-key g eyJrIjoi{b:80}
grafana-cloud-token gs glc_{b:60}
grafana-service-account-token gs glsa_{a:32}_{x:8}
groq-api-key s gsk_{a:52}
harness-api-key g pat.{s:22}.{a:24}.{a:20}
hashicorp-terraform-token g {a:14}.atlasv1.{s:64}
hashicorp-vault-batch-token gs hvb.{s:140}
hashicorp-vault-recovery-token s hvr.{s:95}
hashicorp-vault-service-token gs hvs.{s:95}
heroku-api-key-v2 g HRKU-AA{s:58}
huggingface-access-token gs hf_{p:34}
huggingface-organization-token g api_org_{p:34}
infracost-api-token g ico-{a:32}
intra42-client-secret g s-s4t2ud-{x:64}
jwt g eyJ{a:30}.eyJ{a:60}.{s:43}
jwt-in-base64 g ZXlKaGJHY2lPaU{a:120}
linear-api-key gs lin_api_{a:40}
mailchimp-api-key g {x:32}-us12
mapbox-api-token g pk.{l:60}.{l:22}
maxmind-license-key g {a:6}_{a:29}_mmk
microsoft-teams-webhook g webhook.office.com/webhookb2/{x:8}-{x:4}@{x:8}-{x:4}/IncomingWebhook/{l:32}/{x:36}
new-relic-browser-token g NRJS-{x:19}
new-relic-insert-key g NRII-{l:32}
new-relic-user-key g NRAK-{u:27}
notion-api-token gs ntn_{d:11}{a:35}
npm-access-token gs npm_{a:36}
octopus-deploy-key g API-{u:26}
openai-api-key gs sk-proj-{s:74}T3BlbkFJ{s:74}
openai-legacy-key gs sk-{a:20}T3BlbkFJ{a:20}
openshift-user-token g sha256~{s:43}
perplexity-api-key g pplx-{a:48}
plaid-api-token g access-sandbox-{x:8}-{x:4}-{x:4}-{x:4}-{x:12}
planetscale-oauth-token g pscale_oauth_{s:40}
planetscale-password g pscale_pw_{s:40}
planetscale-token g pscale_tkn_{s:40}
postman-api-token g PMAK-{x:24}-{x:34}
prefect-api-token g pnu_{a:36}
pulumi-api-token g pul-{x:40}
pypi-upload-token g pypi-AgEIcHlwaS5vcmc{s:80}
readme-api-token g rdme_{l:70}
rubygems-api-token g rubygems_{x:48}
scalingo-api-token g tk-us-{s:48}
secp256k1-private-key s 0x{x:64}
sendgrid-api-key gs SG.{a:22}.{a:43}
sendinblue-api-token g xkeysib-{x:64}-{l:16}
sentry-organization-token g sntrys_eyJpYXQiO{b:100}_{b:43}
sentry-user-token g sntryu_{x:64}
settlemint-application-token g sm_aat_{a:16}
settlemint-personal-token g sm_pat_{a:16}
settlemint-service-token g sm_sat_{a:16}
shippo-api-token g shippo_live_{x:40}
shopify-access-token gs shpat_{x:32}
shopify-custom-app-token gs shpca_{x:32}
shopify-private-app-token gs shppa_{x:32}
shopify-shared-secret gs shpss_{x:32}
slack-app-token gs xapp-1-{u:11}-{d:13}-{x:64}
slack-bot-token gs xoxb-{d:12}-{d:12}-{a:24}
slack-config-access-token g xoxe.xoxp-1-{u:163}
slack-config-refresh-token g xoxe-1-{u:146}
slack-legacy-bot-token g xoxb-{d:12}-{a:24}
slack-legacy-token g xoxs-{d:10}-{d:10}-{d:10}-{x:32}
slack-legacy-workspace-token g xoxr-{a:40}
slack-user-token gs xoxp-{d:11}-{d:11}-{d:12}-{x:32}
slack-webhook-url gs https://hooks.slack.com/services/T{u:8}/B{u:8}/{a:24}
sourcegraph-token g sgp_{x:40}
square-access-token g sq0atp-{s:22}
stripe-secret-key gs sk_live_{a:24}
stripe-restricted-key gs rk_test_{a:24}
tailscale-api-key s tskey-api-{a:12}-{a:24}
tailscale-auth-key s tskey-auth-{a:12}-{a:24}
telegram-bot-token g {d:9}:A{s:34}
twilio-api-key g SK{x:32}
typeform-api-token g tfp_{s:59}
vault-legacy-token g s.{a:24}
vercel-personal-token s vcp_{a:40}
vercel-integration-token s vci_{a:40}
vercel-app-token s vca_{a:40}
vercel-refresh-token s vcr_{a:40}
vercel-gateway-key s vck_{a:40}
yandex-access-token g t1.{a:30}.{s:86}
yandex-api-key g AQVN{s:36}
`)

/** Secrets without a prefix. The name of the service next to them identifies them. */
export const NAMED = table(`
adafruit g {s:32}
adobe g {x:32}
airtable g {l:17}
algolia g {l:32}
alibaba g {l:30}
asana g {l:32}
confluence g {l:20}{x:4}
beamer g b_{s:44}
bitbucket g {l:32}
bittrex g {l:32}
meraki g {x:40}
cloudflare g {s:40}
codecov g {l:32}
cohere g {a:40}
coinbase g {s:64}
confluent g {l:64}
contentful g {s:43}
datadog g {l:40}
discord g {x:64}
droneci g {l:32}
dropbox g {l:15}
etsy g {l:24}
facebook g {x:32}
fastly g {s:32}
finicity g {x:32}
finnhub g {l:20}
flickr g {l:32}
freshbooks g {l:64}
gitter g {s:40}
gocardless g live_{s:40}
heroku g {x:8}-{x:4}-{x:4}-{x:4}-{x:12}
hubspot g {x:8}-{x:4}-{x:4}-{x:4}-{x:12}
intercom g {s:60}
jfrog g {l:73}
artifactory g {l:64}
kraken g {b:84}
kucoin g {x:24}
launchdarkly g {s:40}
linear g {x:32}
linkedin g {l:16}
lob g live_{x:35}
looker g {l:24}
mailgun g key-{x:32}
mattermost g {l:26}
messagebird g {l:25}
netlify g {s:43}
new_relic g {l:64}
nytimes g {s:32}
okta g 00{s:40}
plaid g {l:30}
private_ai g {l:32}
rapidapi g {s:50}
sendbird g {x:40}
sentry g {x:64}
snyk g {x:8}-{x:4}-{x:4}-{x:4}-{x:12}
sonar g {s:40}
sourcegraph g {x:40}
squarespace g {x:8}-{x:4}-{x:4}-{x:4}-{x:12}
sumologic g {a:64}
travis g {l:22}
twitch g {l:30}
twitter g {l:45}
yandex g YC{s:38}
zendesk g {l:40}
`)

export interface SecretFormat {
  readonly name: string
  readonly sources: string
  readonly format: string
}

function table(rows: string): SecretFormat[] {
  return rows
    .trim()
    .split('\n')
    .map((row) => {
      const [name = '', sources = '', format = ''] = row.split(' ')
      return { name, sources, format }
    })
}

const DIGITS = '0123456789'
const SMALL = 'abcdefghijklmnopqrstuvwxyz'
const LETTERS = SMALL + SMALL.toUpperCase()
const ALPHABETS: Readonly<Record<string, string>> = {
  d: DIGITS,
  x: `${DIGITS}abcdef`,
  l: DIGITS + SMALL,
  u: DIGITS + SMALL.toUpperCase(),
  p: LETTERS,
  a: DIGITS + LETTERS,
  w: `${DIGITS}${LETTERS}_`,
  s: `${DIGITS}${LETTERS}_-`,
  b: `${DIGITS}${LETTERS}+/`,
}

/** Generates samples of formats, reproducibly per seed. */
export function createSampler(seed: number): (format: string) => string {
  let state = seed
  // Mulberry32
  const random = () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  return (format) =>
    format.replace(/\{([a-z]):(\d+)\}/g, (_run, letter: string, length: string) => {
      const alphabet = ALPHABETS[letter] ?? ''
      return Array.from(
        { length: Number(length) },
        () => alphabet[Math.floor(random() * alphabet.length)],
      ).join('')
    })
}
