/**
 * Hosts whose addresses serve other customers of a content network too. Inside TLS, a client could ask such an address
 * for a site of another customer. The list cannot be complete: for another such host, a limit such as `paths` has the
 * same effect.
 */
const CONTENT_NETWORKS = [
  ...['registry.npmjs.org', 'registry.yarnpkg.com'],
  ...['pypi.org', 'files.pythonhosted.org'],
  ...['crates.io', 'index.crates.io', 'static.crates.io'],
  ...['deb.debian.org', 'security.debian.org'],
  ...['raw.githubusercontent.com', 'objects.githubusercontent.com', 'release-assets.githubusercontent.com'],
  ...[
    'cdn.jsdelivr.net',
    'unpkg.com',
    'esm.sh',
    'cdnjs.cloudflare.com',
    'rubygems.org',
    'repo.maven.apache.org',
  ],
  ...['static.rust-lang.org', 'nodejs.org', 'dl-cdn.alpinelinux.org', 'cdn.playwright.dev'],
  // Below these names each customer has a site.
  ...['.cloudfront.net', '.azureedge.net', '.azurefd.net', '.fastly.net', '.fastlylb.net', '.edgekey.net'],
  ...[
    '.akamaized.net',
    '.b-cdn.net',
    '.workers.dev',
    '.pages.dev',
    '.vercel.app',
    '.netlify.app',
    '.github.io',
  ],
]

/** Whether the host is known to share its addresses with other customers of a content network. */
export const isOnContentNetwork = (host: string): boolean =>
  CONTENT_NETWORKS.some((known) => (known.startsWith('.') ? host.endsWith(known) : host === known))
