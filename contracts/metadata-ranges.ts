/**
 * Addresses of metadata and platform services, which hand out identities. `azure` also covers the metadata service of most
 * other clouds, at 169.254.169.254. `otherClouds`: Alibaba, AWS, Oracle (IPv6), Scaleway, Google.
 */
export const METADATA_RANGES = {
  azure: ['169.254.0.0/16', '168.63.129.16/32'],
  oracle: '192.0.0.192/32',
  otherClouds: [
    ...['100.100.100.200/32', 'fd00:ec2::/32', 'fd00:c1::a9fe:a9fe/128'],
    ...['fd00:42::42/128', 'fd20:ce::254/128'],
  ],
} as const
