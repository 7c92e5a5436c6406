/** The kinds that Xylem speaks of, for those who connect a client; they live beside the port. */

export {
  LEASES,
  NODES,
  SECRETS,
  SERVICES,
  TUNNELS,
  TUNNEL_AGENTS,
  TUNNEL_GATEWAYS,
} from "#src/ports/kube-resource.ts";
