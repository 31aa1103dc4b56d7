{{- define "archipel.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "archipel.selector" -}}
app.kubernetes.io/name: archipel
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "archipel.labels" -}}
{{ include "archipel.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "archipel.probe" -}}
httpGet:
  path: {{ .path }}
  port: s3
  scheme: {{ if .tls }}HTTPS{{ else }}HTTP{{ end }}
{{- end -}}
