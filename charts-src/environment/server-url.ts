/** A host name in lower case with at least one dot, a port and a path if needed, and nothing else. */
const SERVER =
  /^https:\/\/(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?(?::\d{1,5})?(?:\/[A-Za-z0-9._~/-]*)?$/

/** False for port 0 and for ports that do not exist. */
export const hasUsablePort = (url: string): boolean => URL.canParse(url) && new URL(url).port !== '0'

/** Whether a network policy can allow the server of this URL: `https` and a host name, because policies allow names only. */
export const isServerUrl = (url: string): boolean => SERVER.test(url) && hasUsablePort(url)
