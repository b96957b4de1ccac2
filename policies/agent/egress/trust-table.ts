/** A variable that names the file with the certificates that a program trusts. */
interface TrustVariable {
  readonly name: string
  /** The programs that read it. */
  readonly programs: string
}

/**
 * Each of these variables replaces the certificates of its programs, except `NODE_EXTRA_CA_CERTS`, which adds to them. So
 * the file has the public roots too.
 */
export const TRUST_VARIABLES: readonly TrustVariable[] = [
  {
    name: 'SSL_CERT_FILE',
    programs: 'programs with OpenSSL, Go, Ruby, uv, rustls; the ssl module of Python, httpx',
  },
  { name: 'NODE_EXTRA_CA_CERTS', programs: 'Node, npm, pnpm, yarn' },
  { name: 'CURL_CA_BUNDLE', programs: 'curl, requests of Python' },
  { name: 'REQUESTS_CA_BUNDLE', programs: 'requests of Python' },
  { name: 'PIP_CERT', programs: 'pip' },
  { name: 'GIT_SSL_CAINFO', programs: 'git' },
  { name: 'CARGO_HTTP_CAINFO', programs: 'cargo' },
  { name: 'AWS_CA_BUNDLE', programs: 'the AWS command and its SDKs' },
  { name: 'CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE', programs: 'gcloud' },
  { name: 'DENO_CERT', programs: 'Deno' },
  { name: 'NIX_SSL_CERT_FILE', programs: 'Nix' },
]

/**
 * The files in which distributions keep the certificates of the machine. Programs that read no variable use them, such as
 * wget, apt and others with GnuTLS.
 */
export const TRUST_FILES: readonly string[] = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem',
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/etc/ssl/ca-bundle.pem',
  '/etc/ssl/cert.pem',
]

/** Java reads a separate key store instead, and system properties instead of the proxy variables. */
export const javaOptions = (port: number, trustStore: string | undefined): string =>
  [
    ...['http', 'https'].flatMap((scheme) => [
      `-D${scheme}.proxyHost=127.0.0.1`,
      `-D${scheme}.proxyPort=${port}`,
    ]),
    '-Dhttp.nonProxyHosts=localhost|127.*|[::1]',
    ...(trustStore === undefined
      ? []
      : [`-Djavax.net.ssl.trustStore=${trustStore}`, '-Djavax.net.ssl.trustStoreType=JKS']),
  ].join(' ')

/** Maven 3.9 and 4 read the system properties of Java only with these. */
export const MAVEN_ARGUMENTS = ['connector.http', 'transport.apache']
  .map((name) => `-Daether.${name}.useSystemProperties=true`)
  .join(' ')

/** Sites whose SSH addresses of repositories have an https address with the same path. */
const SSH_SITES = ['github.com', 'gitlab.com', 'bitbucket.org']

const SSH_REFUSED =
  'agentweaver: SSH has no way out of this sandbox. Use the https address of the repository.'

/**
 * Settings of git in environment variables, after `count` others: the settings of the run. SSH addresses of known sites
 * become https addresses, and other SSH connections print the reason why they fail.
 */
export function gitEnvironment(
  count: number,
  ofRun: readonly (readonly [string, string])[] = [],
): Record<string, string> {
  const ofSites = SSH_SITES.flatMap((site) =>
    [`git@${site}:`, `ssh://git@${site}/`].map(
      (address) => [`url.https://${site}/.insteadOf`, address] as const,
    ),
  )
  const settings = [...ofSites, ...ofRun]
  const variables = settings.flatMap(([key, value], index) => [
    [`GIT_CONFIG_KEY_${count + index}`, key],
    [`GIT_CONFIG_VALUE_${count + index}`, value],
  ])
  return {
    ...Object.fromEntries(variables),
    GIT_CONFIG_COUNT: String(count + settings.length),
    GIT_SSH_COMMAND: `echo '${SSH_REFUSED}' >&2; exit 255; :`,
  }
}
