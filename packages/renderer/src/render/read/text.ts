/**
 * Text from an input, safe to print: quoted, at most 60 characters, everything outside printable ASCII escaped, so that control and
 * bidi characters cannot change the display of a terminal or review page.
 */
export function quote(text: string): string {
  const short = text.length > 60 ? `${text.slice(0, 60)}…` : text;
  return JSON.stringify(short).replaceAll(/[^ -~…]/g, escapeUnit);
}

function escapeUnit(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

const hidden = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;

/** Whether a text has invisible characters, or ones that change the display of others: controls, bidi marks, zero width. */
export function hasHiddenCharacters(text: string): boolean {
  return hidden.test(text);
}

const label = /^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$/;

/** RFC 1123 label, by Kubernetes' rules (`IsDNS1123Label`): namespaces, Services, port names. */
export function isDnsLabel(text: string): boolean {
  return label.test(text);
}

/** RFC 1123 subdomain (`IsDNS1123Subdomain`): Nodes, EndpointSlices. A label of it may be longer than 63, as in Kubernetes. */
export function isDnsSubdomain(text: string): boolean {
  return text.length <= 253 && subdomain.test(text);
}

const subdomain = /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*$/;
const labelValue = /^(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$/;

/** A label value (`IsValidLabelValue`): zones. It cannot contain the delimiters of guards. */
export function isLabelValue(text: string): boolean {
  return labelValue.test(text);
}

const portName = /^(?=.{1,15}$)(?=.*[a-z])(?!.*--)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?$/;

/** The name of a container port (`IsValidPortName`, RFC 6335), for targetPort. */
export function isPortName(text: string): boolean {
  return portName.test(text);
}
