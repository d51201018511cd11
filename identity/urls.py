"""Addresses of the identity screens."""

from django.urls import path

from identity.views import audit, review, tokens

urlpatterns = [
    path("review/", review.review, name="review"),
    path("review/decide/", review.review_bulk, name="review_bulk"),
    path("review/undo/<uuid:batch>/", review.review_batch_undo, name="review_batch_undo"),
    path("review/<uuid:pk>/", review.proposal, name="proposal"),
    path("review/<uuid:pk>/preview/", review.proposal_preview, name="proposal_preview"),
    path("review/<uuid:pk>/decide/", review.proposal_decide, name="proposal_decide"),
    path("review/<uuid:pk>/undo/", review.proposal_undo_view, name="proposal_undo"),
    path("audit/", audit.audit, name="audit"),
    path("audit/<int:pk>/", audit.audit_event, name="audit_event"),
    path("agents/<slug:slug>/tokens/", tokens.agent_tokens, name="agent_tokens"),
    path("agents/<slug:slug>/tokens/<int:pk>/revoke/", tokens.agent_token_revoke, name="agent_token_revoke"),
]
