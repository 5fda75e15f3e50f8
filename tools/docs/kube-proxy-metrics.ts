/** What answers for a metric of kube-proxy on a node with Sluice. */
export type MetricAnswer =
  /** Exported under the same name, with the same meaning. */
  | { readonly kind: 'same'; readonly note?: string }
  /** Another metric answers the question. */
  | { readonly kind: 'own'; readonly name: string; readonly note?: string }
  /** Nothing answers it. */
  | { readonly kind: 'none'; readonly why: string };

const none = (why: string): MetricAnswer => ({ kind: 'none', why });
const own = (name: string, note?: string): MetricAnswer => ({
  kind: 'own',
  name,
  ...(note === undefined ? {} : { note }),
});
const same = (note?: string): MetricAnswer => ({ kind: 'same', ...(note === undefined ? {} : { note }) });

const windows = none('Windows only');

/** Every metric of kube-proxy 1.37 and 1.38, which have the same (`pkg/proxy/metrics/metrics.go`), by its name. */
export const kubeProxyMetrics: Readonly<Record<string, MetricAnswer>> = {
  kubeproxy_sync_proxy_rules_duration_seconds: same(
    'a sync is a bundle that went into the kernel, probation included; both families go in together',
  ),
  kubeproxy_sync_full_proxy_rules_duration_seconds: own(
    'sluice_apply_duration_seconds',
    'a node writes differences only, so no sync is full',
  ),
  kubeproxy_sync_partial_proxy_rules_duration_seconds: own('sluice_apply_duration_seconds', 'each sync is partial'),
  kubeproxy_sync_proxy_rules_last_timestamp_seconds: same(),
  kubeproxy_network_programming_duration_seconds: own(
    'sluice_watch_network_programming_duration_seconds',
    'of `sluice watch`, up to the complete directory; `sluice_apply_duration_seconds` is the rest of the way',
  ),
  kubeproxy_sync_proxy_rules_endpoint_changes_pending: own(
    'sluice_bundle_pending',
    'nodes read bundles, not objects; `sluice_watch_pending_changes` counts objects',
  ),
  kubeproxy_sync_proxy_rules_endpoint_changes_total: own('sluice_outcomes_total', 'bundles, not objects'),
  kubeproxy_sync_proxy_rules_service_changes_pending: own(
    'sluice_bundle_pending',
    'nodes read bundles, not objects; `sluice_watch_pending_changes` counts objects',
  ),
  kubeproxy_sync_proxy_rules_service_changes_total: own('sluice_outcomes_total', 'bundles, not objects'),
  kubeproxy_iptables_ct_state_invalid_dropped_packets_total: none(
    'no rule uses nfacct objects; `iptables -nvxL SLUICE-FORWARD` (layout flat: KUBE-FORWARD) has the counter',
  ),
  kubeproxy_sync_proxy_rules_iptables_restore_failures_total: own('sluice_kernel_refusals_total', 'in every mode'),
  kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total: own(
    'sluice_kernel_refusals_total',
    'there is no larger restore to fall back to: the change is rolled back',
  ),
  kubeproxy_sync_proxy_rules_iptables_total: same(),
  kubeproxy_sync_proxy_rules_iptables_last: same('the rules of the chains that the last change wrote'),
  kubeproxy_sync_proxy_rules_nftables_sync_failures_total: own('sluice_kernel_refusals_total', 'in every mode'),
  kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total: none('nothing is cleaned up apart from a transaction'),
  kubeproxy_proxy_healthz_total: same(),
  kubeproxy_proxy_livez_total: same(),
  kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds: same(),
  kubeproxy_sync_proxy_rules_no_local_endpoints_total: none(
    'a bundle shows it before any node has it: `sluice report` lists Services without endpoints',
  ),
  kubeproxy_sync_proxy_rules_winkernel_lb_create_failures_total: windows,
  kubeproxy_sync_proxy_rules_winkernel_lb_update_failures_total: windows,
  kubeproxy_sync_proxy_rules_winkernel_lb_delete_failures_total: windows,
  kubeproxy_iptables_localhost_nodeports_accepted_packets_total: none('no rule uses nfacct objects'),
  kubeproxy_nftables_localhost_nodeport_listeners: own(
    'sluice_localhost_listeners',
    'on ::1 alone: 127.0.0.1 is served by the table',
  ),
  kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total: own(
    'sluice_localhost_listener_failures',
    'on ::1 alone; the alarm `LOCALHOST_PORT` names the port',
  ),
  kubeproxy_nftables_localhost_nodeport_rejected_packets_total: none(
    'the table has the counters, of both families together: `nft list counters table inet sluice`',
  ),
  kubeproxy_conntrack_reconciler_sync_duration_seconds: none(
    'bounded to 0.25 % of a processor, so its duration tells nothing',
  ),
  kubeproxy_conntrack_reconciler_deleted_entries_total: own(
    'sluice_stale_flows',
    'entries that are still to be deleted; the log counts the deleted ones',
  ),
};
