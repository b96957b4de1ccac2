import { createAuthority, issueCertificate } from '../../devcluster/pki/certificate.ts'

/** A certificate authority of one test, and servers' certificates of it. */
export function createTestAuthority() {
  const authority = createAuthority('agentweaver-test-ca')
  return {
    certificate: authority.certificate,
    /** Certificate and key of a TLS server with these names. */
    serverFor: (...names: string[]) => {
      const [commonName = 'server'] = names
      const { certificate, key } = issueCertificate(authority, {
        subject: { commonName },
        usage: 'server',
        names,
      })
      return { cert: certificate, key }
    },
    /** A client certificate with its key, as the operator's file has them. */
    clientFor: (commonName: string, more: { readonly from?: Date } = {}) => {
      const leaf = { subject: { commonName }, usage: 'client', ...more } as const
      const { certificate, key } = issueCertificate(authority, leaf)
      return { certificate, key, pem: `${certificate}${key}` }
    },
  }
}

export type TestAuthority = ReturnType<typeof createTestAuthority>
